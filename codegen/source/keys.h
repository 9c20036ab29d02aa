// Defines requests to compile kernels and their keys, the options of every compile, and the headers that a
// translation unit reads. All functions are pure.
#pragma once

#include <string>
#include <vector>

#include "codegen/base/sha256.h"
#include "codegen/source/emit.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

/// Describes a kernel to compile for one architecture. The constructor computes the key.
struct KernelRequest {
  KernelSource source;
  std::string arch;  // An example is "sm_90a", or "compute_90" for PTX.
  std::string key;   // This is request_key() with this library's headers and options.

  KernelRequest() = default;
  KernelRequest(KernelSource kernel, llvm::StringRef target);
};

/// Returns one request for each source.
std::vector<KernelRequest> requests_of(std::vector<KernelSource> sources, llvm::StringRef arch);

/// Returns the request key of a source for an architecture, with this library's headers and options.
std::string key_of(const KernelSource& source, llvm::StringRef arch);

/// Increase this version when the meaning of a request key or of an entry of the kernel cache changes.
constexpr int kKeySchema = 1;

/// Returns the request key, which covers everything that decides what is compiled and nothing of the
/// compiling machine. `options` are those of every kernel, and the source's own options follow them.
std::string request_key(const KernelSource& source, llvm::StringRef header_digest,
                        const std::vector<std::string>& options, llvm::StringRef arch);

/// Returns the build key, which names a request together with one compiler.
std::string build_key(llvm::StringRef request, llvm::StringRef compiler_id);

/// Returns the options of every compile for `arch` with any compiler. A source may have more options.
std::vector<std::string> compile_options(llvm::StringRef arch);

// The following declarations describe headers. Their texts are in embedded_headers.h, which only the helper
// program contains.

/// Describes a header of our kernels.
struct HeaderRow {
  const char* name;      // This is the name in an include directive.
  const char* digest;    // This is the SHA-256 of the header's text.
  const char* includes;  // These are the names that it includes, each followed by '\n'.
};

/// Returns the embedded headers of our kernels, sorted by name.
llvm::ArrayRef<HeaderRow> kernel_headers();

/// Describes the headers that a translation unit reads, directly or through our own headers.
struct HeaderClosure {
  std::vector<const HeaderRow*> ours;  // These are in the order of the index of our headers.
  bool cuda = false;    // This is true if the unit reads the fp16 and bf16 headers, as CCCL's headers do.
  bool cccl = false;    // This is true if the unit reads CUB and the headers that it includes.
  std::string outside;  // This is an include that is absolute or contains "..", or empty.
};
HeaderClosure header_closure(llvm::StringRef text, llvm::ArrayRef<HeaderRow> index = kernel_headers());

/// Returns the digest of the headers that a translation unit with this text reads. It is part of the request
/// key. Of our headers it covers only those that the unit reads, so that a changed header leaves the keys of
/// kernels that do not read it unchanged. Of the toolkit it covers whole groups of headers, which change only
/// with the toolkit's version.
std::string header_digest(llvm::StringRef text, llvm::ArrayRef<HeaderRow> index = kernel_headers());

/// Holds the properties of a translation unit's headers that request keys and for_each_with_helper() need.
struct HeaderUse {
  std::string digest;  // This is the result of header_digest().
  bool cccl = false;   // This is true if the unit includes CUB, which takes seconds to compile.
};
/// Returns the HeaderUse of a translation unit with this text. It is computed once per process for each list
/// of included names. The function is thread-safe.
const HeaderUse& header_use(llvm::StringRef text);

/// Returns the digest of all embedded headers.
std::string all_headers_digest();

}  // namespace minuet
