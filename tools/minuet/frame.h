// Where a cloud's voxels are counted from, and whether float32 tells its points apart.
#pragma once

#include <optional>

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud.h"

namespace minuet::tool {

/// A voxel is floor((p - origin) / voxel_size), and position features are p - origin. Metres.
struct Frame {
  Position origin = {};
  double voxel_size = 0.1;  ///< as written, so that an origin can be a whole number of voxels
  double step = 0;          ///< how far apart positions are at worst, as stored and behind the origin

  /// Whether positions are coarser than a thousandth of a voxel, which the user is to know.
  bool is_coarse() const;
  bool is_moved() const { return origin != Position{}; }
  /// The origin in voxels, where it is a whole number of them on every axis.
  std::optional<std::array<int64_t, 3>> whole_voxels() const;
};

/// The distance from `value` to the next number of the type.
double step_of(Scalar type, double value);

/// Whether float32 metres as far out as `reach` are too coarse for voxels of this size: steps of more than a
/// thousandth of a voxel.
bool is_too_far(double reach, double voxel_size);

/// The frame of points, by --origin or chosen: 0 while float32 is fine enough as far out as the points lie,
/// else the middle of their bounding box, rounded down to whole voxels. An error where steps, of what the
/// points were stored in or of float32 behind the origin, are more than a tenth of a voxel. Points that are
/// not finite do not count.
llvm::Expected<Frame> choose_frame(const std::vector<Point>& points,
                                   const std::array<Scalar, 3>& position_types,
                                   const std::optional<Position>& origin, double voxel_size);

}  // namespace minuet::tool
