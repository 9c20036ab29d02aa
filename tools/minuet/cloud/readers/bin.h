// Reader of little-endian float32 rows without a header, as in KITTI (4 columns) and nuScenes (5).
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/readers/cloud.h"
#include "tools/minuet/cloud/readers/cloud_builder.h"

namespace minuet::tool {

/// Reads points. Columns 0 to 2 are x, y, z in metres. Column 3 is the intensity if there are 4 or 5 columns.
/// In wider rows it may be a colour, so only a column that the options name becomes the intensity.
llvm::Expected<Cloud> read_bin(llvm::StringRef bytes, const ColumnOptions& options);

/// Returns the fields of rows that have `columns` numbers without names, for .bin and .npy.
llvm::Expected<std::vector<CloudField>> unnamed_fields(int64_t columns, Scalar type,
                                                       std::optional<int> intensity_column);
/// Finishes the cloud of such rows and fills its `columns` text.
Cloud finish_unnamed(CloudBuilder& builder);

}  // namespace minuet::tool
