// Reads a library's build-id and a cubin's facts about its kernel from ELF files. The bytes may be untrusted:
// nothing is read out of bounds.
#pragma once

#include <string>

#include "codegen/base/error.h"

namespace minuet {

/// Properties of one kernel of a cubin, which are known without a GPU.
struct CubinFacts {
  int sm = 0;           ///< 90 for both sm_90 and sm_90a, because an ELF file does not have the suffix
  int max_threads = 0;  ///< per thread block
  int params_bytes = 0;
};

/// Returns InvalidArgument if `bytes` is not a complete cubin or has no kernel with that (lowered) name.
llvm::Expected<CubinFacts> read_cubin(llvm::StringRef bytes, llvm::StringRef kernel);

/// Returns the GNU build-id in the notes of a segment as hex digits, or an empty string if there is none.
std::string find_build_id(llvm::StringRef notes);

}  // namespace minuet
