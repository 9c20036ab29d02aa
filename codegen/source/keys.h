// Names kernels to compile: requests and their keys, the options of every compile, and the headers that a
// unit reads. All functions are pure.
#pragma once

#include <string>
#include <vector>

#include "codegen/base/sha256.h"
#include "codegen/source/emit.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

/// A kernel to compile for one architecture. Its constructor makes its key.
struct KernelRequest {
  KernelSource source;
  std::string arch;  // for example "sm_90a"; "compute_90" for PTX
  std::string key;   // request key with this library's headers and options

  KernelRequest() = default;
  KernelRequest(KernelSource kernel, llvm::StringRef target);
};

/// Returns one request for each source.
std::vector<KernelRequest> requests_of(std::vector<KernelSource> sources, llvm::StringRef arch);

/// Returns the request key of a source for an architecture, with this library's headers and options.
std::string key_of(const KernelSource& source, llvm::StringRef arch);

/// Increased when the meaning of a key or of an entry changes.
constexpr int kKeySchema = 1;

/// Returns the request key, which covers everything that decides what is compiled and nothing of the
/// compiling machine. `options` are those of every kernel and come before the source's own.
std::string request_key(const KernelSource& source, llvm::StringRef header_digest,
                        const std::vector<std::string>& options, llvm::StringRef arch);

/// Returns the build key, which names a request together with one compiler.
std::string build_key(llvm::StringRef request, llvm::StringRef compiler_id);

/// Returns the options of every compile for `arch` with any compiler. A source may have more.
std::vector<std::string> compile_options(llvm::StringRef arch);

// ---- headers: their texts are in embedded_headers.h, which only the helper program contains --------------

/// A header of our kernels.
struct HeaderRow {
  const char* name;      // as written in an include
  const char* digest;    // SHA-256 of its text
  const char* includes;  // names, each followed by '\n'
};

/// Returns the embedded headers of our kernels, sorted by name.
llvm::ArrayRef<HeaderRow> kernel_headers();

/// The headers that a unit reads, directly or through our own headers.
struct HeaderClosure {
  std::vector<const HeaderRow*> ours;  // in the order of the index
  bool cuda = false;                   // true if the fp16 and bf16 headers are read, as CCCL's do
  bool cccl = false;                   // true if CUB and the headers that it includes are read
  std::string outside;                 // an include that would leave the embedded set, or empty
};
HeaderClosure header_closure(llvm::StringRef text, llvm::ArrayRef<HeaderRow> index = kernel_headers());

/// Returns the digest of the headers that a unit with this text reads, which is part of its request key. Of
/// our headers it covers exactly those, so that a changed comment leaves other kernels alone; of the toolkit
/// it covers whole groups, which change only with its version.
std::string header_digest(llvm::StringRef text, llvm::ArrayRef<HeaderRow> index = kernel_headers());

/// The properties of a unit's headers that keys and helper pools need.
struct HeaderUse {
  std::string digest;  // header_digest
  bool cccl = false;   // true if the unit includes CUB, which takes seconds to compile
};
/// Computes the result once per process for each list of includes. Thread-safe.
const HeaderUse& header_use(llvm::StringRef text);

/// Returns the digest of all embedded headers.
std::string all_headers_digest();

}  // namespace minuet
