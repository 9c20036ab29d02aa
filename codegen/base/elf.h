// The little of ELF that we read: a library's build-id, and what a cubin says about its kernel.
// Works on untrusted bytes: nothing is read out of bounds, what does not fit is an error.
#pragma once

#include <string>

#include "codegen/base/error.h"

namespace minuet {

/// What a cubin says about one kernel, known without a GPU.
struct CubinFacts {
  int sm = 0;           // 90 for sm_90 and sm_90a alike: the suffix is not in an ELF file
  int max_threads = 0;  // per block
  int params_bytes = 0;
};

/// InvalidArgument where `bytes` is no whole cubin or has no kernel of that (lowered) name.
llvm::Expected<CubinFacts> read_cubin(llvm::StringRef bytes, llvm::StringRef kernel);

/// The GNU build-id among the notes of a segment, as hex digits; empty where there is none.
std::string find_build_id(llvm::StringRef notes);

}  // namespace minuet
