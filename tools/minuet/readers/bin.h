// Headerless little-endian float32 rows, as KITTI (4 columns) and nuScenes (5) write them.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud.h"

namespace minuet::tool {

/// Columns 0 to 2 are x, y, z in metres, column 3 (where there is one) the intensity; more are skipped.
llvm::Expected<Cloud> read_bin(llvm::StringRef bytes, int columns);

}  // namespace minuet::tool
