// NumPy .npy files, version 1.0, little-endian, C order.
#pragma once

#include <cstdint>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace minuet::tool {

llvm::Error write_npy(llvm::StringRef path, const std::vector<float>& values,
                      const std::vector<int64_t>& shape);
llvm::Error write_npy(llvm::StringRef path, const std::vector<int32_t>& values,
                      const std::vector<int64_t>& shape);

/// Writes the whole file or says why not; every writer of the tool ends here.
llvm::Error write_file(llvm::StringRef path, llvm::StringRef bytes);

}  // namespace minuet::tool
