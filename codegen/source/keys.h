// What is to be compiled, by its name (R1): requests and their keys, the options of every compile, and which
// headers a unit reads. Pure.
#pragma once

#include <string>
#include <vector>

#include "codegen/base/sha256.h"
#include "codegen/source/emit.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

/// A kernel to compile for one architecture. Its key is made with it and goes with it.
struct KernelRequest {
  KernelSource source;
  std::string arch;  // "sm_90a"; "compute_90" for PTX
  std::string key;   // RK with this library's headers and options

  KernelRequest() = default;
  KernelRequest(KernelSource kernel, llvm::StringRef target);
};

/// One for each source.
std::vector<KernelRequest> requests_of(std::vector<KernelSource> sources, llvm::StringRef arch);

/// RK of a source for an architecture, with this library's headers and options.
std::string key_of(const KernelSource& source, llvm::StringRef arch);

/// Changed when the meaning of a key or of an entry changes.
constexpr int kKeySchema = 1;

/// RK: everything that decides what is compiled, and nothing of the machine it is compiled on.
/// `options`: what every kernel has, in front of the source's own.
std::string request_key(const KernelSource& source, llvm::StringRef header_digest,
                        const std::vector<std::string>& options, llvm::StringRef arch);

/// BK: a request as one compiler answers it.
std::string build_key(llvm::StringRef request, llvm::StringRef compiler_id);

/// The options of every compile for `arch`, whatever compiler there is; a source may have more.
std::vector<std::string> compile_options(llvm::StringRef arch);

// ---- headers: the texts are in embedded_headers.h, which only the helper program has (R36) --------------

/// A header of our kernels.
struct HeaderRow {
  const char* name;      // as it is included
  const char* digest;    // SHA-256 of its text
  const char* includes;  // names, each with '\n' behind it
};

/// Those that are embedded, by name.
llvm::ArrayRef<HeaderRow> kernel_headers();

/// What a unit reads, followed through our own headers.
struct HeaderClosure {
  std::vector<const HeaderRow*> ours;  // in the order of the index
  bool cuda = false;                   // the fp16 and bf16 headers; CCCL's include them
  bool cccl = false;                   // CUB and what it includes
  std::string outside;                 // an include that would leave the embedded set; empty: none
};
HeaderClosure header_closure(llvm::StringRef text, llvm::ArrayRef<HeaderRow> index = kernel_headers());

/// Of the headers that a unit with this text reads, part of its request key: of ours exactly those, so that a
/// comment in one leaves the others' kernels alone; of the toolkit a whole group, which never changes but
/// with its version (R1).
std::string header_digest(llvm::StringRef text, llvm::ArrayRef<HeaderRow> index = kernel_headers());

/// What keys and pools ask of a unit's headers.
struct HeaderUse {
  std::string digest;  // header_digest
  bool cccl = false;   // CUB takes seconds to compile
};
/// Worked out once a process for every list of includes. Thread-safe.
const HeaderUse& header_use(llvm::StringRef text);

/// Of every embedded header.
std::string all_headers_digest();

}  // namespace minuet
