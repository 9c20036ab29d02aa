// Reads the Point Cloud Library's PCD files, whose data are ascii, binary or binary_compressed (by LZF).
#pragma once

#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Reads points from the fields x, y and z in metres and the intensity that assign_targets() selects
/// (readers/cloud_builder.h). Organised clouds, which have the rows and columns of an image, often contain
/// NaN pixels, which --skip-invalid drops.
///
/// Headers are accepted as in the Point Cloud Library's own reader. The lines FIELDS (or COLUMNS), SIZE,
/// TYPE, COUNT, WIDTH, HEIGHT, POINTS and DATA may be in any order. Without SIZE, TYPE or COUNT, the values
/// 4, F and 1 apply. Without WIDTH and HEIGHT the cloud is one row of POINTS points. Only the first letter of
/// a type counts, and the case of types and DATA does not matter.
llvm::Expected<Cloud> read_pcd(llvm::StringRef bytes, const std::optional<std::string>& intensity_field);
llvm::Expected<Cloud> read_pcd(llvm::StringRef bytes);

}  // namespace minuet::tool
