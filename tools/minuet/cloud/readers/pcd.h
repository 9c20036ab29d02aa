// Point Cloud Library's PCD: ascii, binary and binary_compressed (LZF, field after field).
#pragma once

#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Points from the fields x, y, z in metres, and the intensity by assign_targets (readers/cloud_builder.h).
/// Organised clouds often hold NaN pixels: --skip-invalid drops them. Headers are taken as the library's own
/// reader takes them: the lines FIELDS (or COLUMNS), SIZE, TYPE, COUNT, WIDTH, HEIGHT, POINTS and DATA in any
/// order, where absent SIZE, TYPE and COUNT mean 4, F and 1, and without WIDTH and HEIGHT the cloud is one
/// row of POINTS; types by their first letter, and types and DATA in any case.
llvm::Expected<Cloud> read_pcd(llvm::StringRef bytes, const std::optional<std::string>& intensity_field);
llvm::Expected<Cloud> read_pcd(llvm::StringRef bytes);

}  // namespace minuet::tool
