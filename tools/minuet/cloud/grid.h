// Makes voxels of the points in a box, as detection networks take them.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/voxelize.h"

namespace minuet::tool {

/// Describes a box that is divided into voxels. Lengths are in metres.
struct Grid {
  Position low = {}, high = {};
  VoxelSize voxel_size = cubic(0.1);
  /// Counts the voxels along x, y and z.
  std::array<int32_t, 3> cells = {};
  /// Counts the cells of a network's input along x, y and z, which may be more than `cells`.
  std::array<int32_t, 3> shape = {};
};

/// Limits what is kept of a cloud. The value 0 means no limit.
struct VoxelLimits {
  int64_t points = 0;  ///< Limits the points of each voxel that count for its features.
  int64_t voxels = 0;
};

/// Parses the value of --range, which is x0,y0,z0,x1,y1,z1, and sets `low` and `high`.
llvm::Error parse_range(const std::string& text, Position& low, Position& high);

/// Returns the grid from `low` to `high`. Along each axis it has round((high - low) / voxel_size) cells.
llvm::Expected<Grid> make_grid(const Position& low, const Position& high, const VoxelSize& voxel_size);

/// Makes unique voxels of the points inside the grid, in the order of their first points.
///
/// The coordinate of a point p on each axis is floor((p - low) / size), computed in IEEE float32 from the
/// float32 values of p, low and size. A point is outside if its position is not finite, not in the half-open
/// range from low to high in float32, or in no cell of the grid. Such points are dropped and counted. The
/// batch index is 0. The features of a voxel are the means of x, y, z (in the cloud's own frame) and
/// intensity of its points, in float32, summed in float64 in the cloud's order and rounded to float32 once.
///
/// Of each voxel's points, only the first limits.points count for the features. Of the voxels, only the first
/// limits.voxels are kept, and the points of others are dropped and counted.
///
/// An intensity that is NaN or infinite is an error, or with `skip_invalid` the point is dropped and counted.
llvm::Expected<VoxelCloud> voxelize_in(const std::vector<Point>& points, const Grid& grid,
                                       const VoxelLimits& limits, bool skip_invalid,
                                       const Voxelizer& voxelizer);

/// Adds channels of zeros to the features up to `channels`.
void add_zero_channels(VoxelCloud& cloud, int channels);

}  // namespace minuet::tool
