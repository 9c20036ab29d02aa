// Makes the input of a network that takes points, and makes voxels of them itself.
#pragma once

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Describes the voxels that a network makes of points, by the layer voxelize of its description.
struct OwnVoxels {
  VoxelSize voxel_size = cubic(0.1);
  Position low = {};  ///< Holds the point from which voxels are counted.
  /// Says whether the network drops points outside a range, which begins at `low`.
  bool has_range = false;
  Position high = {};  ///< Holds the end of the range.
};

/// Returns the points as rows of `columns` numbers: x, y and z relative to the origin and, with four columns,
/// the intensity. Positions are subtracted in float64 and rounded to float32.
///
/// A point is invalid if one of its four numbers is NaN or infinite. With `skip_invalid`, invalid points are
/// left out and counted, and otherwise they are an error. VoxelCloud::row_of_point maps the others to rows.
llvm::Expected<VoxelCloud> point_input(const std::vector<Point>& points, int columns, bool skip_invalid,
                                       const Position& origin);

}  // namespace minuet::tool
