// Reads a library's build-id and a cubin's facts about its kernel from ELF files. The bytes may be untrusted,
// so nothing is read out of bounds.
#pragma once

#include <string>

#include "codegen/base/error.h"

namespace minuet {

/// Holds the properties of one kernel of a cubin that are known without a GPU.
struct CubinFacts {
  int sm = 0;           ///< Is 90 for both sm_90 and sm_90a, because an ELF file does not contain the suffix.
  int max_threads = 0;  ///< Gives the largest number of threads per block.
  int params_bytes = 0;
};

/// Reads the facts about the kernel with the lowered (mangled) name `kernel`. Returns InvalidArgument if
/// `bytes` is not a complete cubin or has no such kernel.
llvm::Expected<CubinFacts> read_cubin(llvm::StringRef bytes, llvm::StringRef kernel);

/// Returns the GNU build-id as hex digits, or an empty string if there is none. `notes` contains the bytes of
/// an ELF note segment.
std::string find_build_id(llvm::StringRef notes);

}  // namespace minuet
