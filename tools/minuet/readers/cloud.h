// Opens a cloud file and picks the reader by the name's end.
#pragma once

#include <optional>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud.h"

namespace minuet::tool {

/// What a file without names for its columns leaves open.
struct ColumnOptions {
  std::optional<int> columns;           ///< of a .bin file; 4 where it is not said
  std::optional<int> intensity_column;  ///< of .bin and .npy, from 3 on
};

/// .bin (float32 rows), .ply, .pcd, .npy, in any case. Errors name the file.
llvm::Expected<Cloud> read_cloud(llvm::StringRef path, const ColumnOptions& options);

}  // namespace minuet::tool
