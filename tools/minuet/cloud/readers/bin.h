// Headerless little-endian float32 rows, as KITTI (4 columns) and nuScenes (5) write them.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/readers/cloud.h"
#include "tools/minuet/cloud/readers/cloud_builder.h"

namespace minuet::tool {

/// Columns 0 to 2 are x, y, z in metres. Column 3 is the intensity where there are 4 or 5; in wider rows it
/// may be a colour, so that none is taken but the one that is named.
llvm::Expected<Cloud> read_bin(llvm::StringRef bytes, const ColumnOptions& options);

/// The fields of rows that have `columns` numbers and no names, for .bin and .npy.
llvm::Expected<std::vector<CloudField>> unnamed_fields(int64_t columns, Scalar type,
                                                       std::optional<int> intensity_column);
/// The cloud of such rows, with what was read as what.
Cloud finish_unnamed(CloudBuilder& builder);

}  // namespace minuet::tool
