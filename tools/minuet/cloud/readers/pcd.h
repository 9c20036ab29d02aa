// Reader of the Point Cloud Library's PCD files: ascii, binary and binary_compressed (LZF, field by field).
#pragma once

#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Reads points from the fields x, y, z in metres and the intensity that assign_targets() selects
/// (readers/cloud_builder.h). Organised clouds often contain NaN pixels, which --skip-invalid drops.
///
/// Headers are accepted as in the Point Cloud Library's own reader: the lines FIELDS (or COLUMNS), SIZE,
/// TYPE, COUNT, WIDTH, HEIGHT, POINTS and DATA may be in any order. Without SIZE, TYPE or COUNT, the values
/// 4, F and 1 apply. Without WIDTH and HEIGHT the cloud is one row of POINTS points. Only the first letter of
/// a type counts, and the case of types and DATA does not matter.
llvm::Expected<Cloud> read_pcd(llvm::StringRef bytes, const std::optional<std::string>& intensity_field);
llvm::Expected<Cloud> read_pcd(llvm::StringRef bytes);

}  // namespace minuet::tool
