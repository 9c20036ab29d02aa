// Point Cloud Library's PCD: ascii, binary and binary_compressed (LZF, field after field).
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud.h"

namespace minuet::tool {

/// Points from the fields x, y, z in metres, and intensity where there is a field of that name
/// (target_of). Organised clouds often hold NaN pixels: --skip-invalid drops them.
llvm::Expected<Cloud> read_pcd(llvm::StringRef bytes);

}  // namespace minuet::tool
