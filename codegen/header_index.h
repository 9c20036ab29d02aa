// Which of the embedded headers a unit reads, and their digests: all that keys need. The texts are in
// embedded_headers.h, which only the helper program has (R36). Pure.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace minuet {

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
