// Where a cloud's voxels are counted from, and whether float32 tells its points apart.
#pragma once

#include <optional>
#include <string>

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// A voxel is floor((p - origin) / voxel_size), and position features are p - origin. Metres.
struct Frame {
  Position origin = {};
  VoxelSize voxel_size = cubic(0.1);  ///< as written, so that an origin can be a whole number of voxels
  double step = 0;         ///< how far apart positions are on the axis that is worst for its voxels
  double step_voxels = 0;  ///< the same as a share of a voxel on that axis

  /// Whether positions are coarser than a thousandth of a voxel, which the user is to know.
  bool is_coarse() const;
  bool is_moved() const { return origin != Position{}; }
  /// The origin in voxels, where it is a whole number of them on every axis.
  std::optional<std::array<int64_t, 3>> whole_voxels() const;
};

/// "0.1", or "0.05 x 0.05 x 0.1" where the sizes differ.
std::string size_text(const VoxelSize& voxel_size);
/// A number where the sizes are equal, else an array of three.
llvm::json::Value size_json(const VoxelSize& voxel_size);

/// The distance from `value` to the next number of the type.
double step_of(Scalar type, double value);

/// Whether float32 metres as far out as `reach` on each axis are too coarse for voxels of these sizes: steps
/// of more than a thousandth of a voxel.
bool is_too_far(const Position& reach, const VoxelSize& voxel_size);

/// The frame of points, by --origin or chosen: 0 while float32 is fine enough as far out as the points lie,
/// else the middle of their bounding box, rounded down to whole voxels. An error where steps, of what the
/// points were stored in or of float32 behind the origin, are more than a tenth of a voxel. Points that are
/// not finite do not count.
llvm::Expected<Frame> choose_frame(const std::vector<Point>& points,
                                   const std::array<Scalar, 3>& position_types,
                                   const std::optional<Position>& origin, const VoxelSize& voxel_size);

}  // namespace minuet::tool
