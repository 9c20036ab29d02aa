// The origin of a cloud's voxels, and the check that float32 is precise enough for its points.
#pragma once

#include <optional>
#include <string>

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Maps positions to voxels: a voxel is floor((p - origin) / voxel_size), and position features are p -
/// origin. All values are in metres.
struct Frame {
  Position origin = {};
  VoxelSize voxel_size = cubic(0.1);  ///< in float64, so that an origin can be a whole number of voxels
  double step = 0;         ///< distance of adjacent positions on the axis with the worst step_voxels
  double step_voxels = 0;  ///< `step` as a fraction of a voxel on that axis

  /// Returns true if positions are coarser than a thousandth of a voxel. The user must be informed then.
  bool is_coarse() const;
  bool is_moved() const { return origin != Position{}; }
  /// Returns the origin in voxels if it is a whole number of voxels on every axis.
  std::optional<std::array<int64_t, 3>> whole_voxels() const;
};

/// Returns for example "0.1", or "0.05 x 0.05 x 0.1" if the sizes differ.
std::string size_text(const VoxelSize& voxel_size);
/// Returns a number if the sizes are equal, otherwise an array of three.
llvm::json::Value size_json(const VoxelSize& voxel_size);

/// Returns the distance from `value` to the next number of the type.
double step_of(Scalar type, double value);

/// Returns true if float32 metres at a distance of `reach` on each axis are too coarse for voxels of these
/// sizes, that is, if their steps exceed a thousandth of a voxel.
bool is_too_far(const Position& reach, const VoxelSize& voxel_size);

/// Returns the frame of the points. Without `origin`, the origin is 0 if float32 is precise enough at the
/// points' distance, otherwise the middle of their bounding box, rounded down to whole voxels. Returns an
/// error if the steps of the stored type, or of float32 relative to the origin, exceed a tenth of a voxel.
/// Points that are not finite are ignored.
llvm::Expected<Frame> choose_frame(const std::vector<Point>& points,
                                   const std::array<Scalar, 3>& position_types,
                                   const std::optional<Position>& origin, const VoxelSize& voxel_size);

}  // namespace minuet::tool
