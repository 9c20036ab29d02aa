// Opens a cloud file and picks the reader by the name's end.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud.h"

namespace minuet::tool {

/// .bin (float32 rows of `columns`), .ply, .pcd, .npy. Errors name the file.
llvm::Expected<Cloud> read_cloud(llvm::StringRef path, int columns);

}  // namespace minuet::tool
