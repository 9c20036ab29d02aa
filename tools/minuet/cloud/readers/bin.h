// Reads files of little-endian float32 rows without a header, as in KITTI (4 columns) and nuScenes (5
// columns).
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/readers/cloud.h"
#include "tools/minuet/cloud/readers/cloud_builder.h"

namespace minuet::tool {

/// Reads points. Columns 0 to 2 are x, y and z in metres. If there are 4 or 5 columns and the options name no
/// other column, column 3 is the intensity. In wider rows it may be a colour, so only a column that the
/// options name becomes the intensity.
llvm::Expected<Cloud> read_bin(llvm::StringRef bytes, const ColumnOptions& options);

/// Returns the fields of a row of a .bin or .npy file. The row has `columns` numbers of type `type` without
/// names.
llvm::Expected<std::vector<CloudField>> unnamed_fields(int64_t columns, Scalar type,
                                                       std::optional<int> intensity_column);
/// Returns the cloud that `builder` made of a .bin or .npy file. Its member `columns` says which columns
/// became x, y, z and intensity.
Cloud finish_unnamed(CloudBuilder& builder);

}  // namespace minuet::tool
