// Chooses the origin of a cloud's voxels, and checks that float32 is precise enough for its points.
#pragma once

#include <optional>
#include <string>

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Maps positions to voxels. A position p is in the voxel floor((p - origin) / voxel_size), and its position
/// features are p - origin. All lengths are in metres.
struct Frame {
  Position origin = {};
  /// The edges are float64 numbers, so that an origin far from 0 can be a whole number of voxels, too.
  VoxelSize voxel_size = cubic(0.1);
  /// Holds the distance between adjacent positions, in the file's types or in float32, on the axis where this
  /// distance is the largest fraction of a voxel.
  double step = 0;
  /// Holds `step` as a fraction of a voxel on that axis.
  double step_voxels = 0;

  /// Returns true if `step` is more than a thousandth of a voxel on its axis. The tool must then tell the
  /// user.
  bool is_coarse() const;
  bool is_moved() const { return origin != Position{}; }
  /// Returns the origin in voxels if it is a whole number of voxels on every axis, and nothing otherwise.
  std::optional<std::array<int64_t, 3>> whole_voxels() const;
};

/// Returns the sizes as text, for example "0.1", or "0.05 x 0.05 x 0.1" if they differ.
std::string size_text(const VoxelSize& voxel_size);
/// Returns a number if the sizes are equal, and otherwise an array of the three sizes.
llvm::json::Value size_json(const VoxelSize& voxel_size);

/// Returns the distance from `value` to the next number that the floating-point type can represent.
double step_of(Scalar type, double value);

/// Returns true if adjacent float32 numbers at a distance of `reach` metres from 0 are more than a thousandth
/// of a voxel apart on any axis.
bool is_too_far(const Position& reach, const VoxelSize& voxel_size);

/// Returns the frame (origin and voxel size) for the points. If no `origin` is given, it is 0, or, if
/// is_too_far() is true for the points, the middle of their bounding box, rounded down to whole voxels.
/// Returns an error if adjacent numbers of the stored types, or adjacent float32 numbers relative to the
/// origin, are more than a tenth of a voxel apart. Ignores points that are not finite.
llvm::Expected<Frame> choose_frame(const std::vector<Point>& points,
                                   const std::array<Scalar, 3>& position_types,
                                   const std::optional<Position>& origin, const VoxelSize& voxel_size);

}  // namespace minuet::tool
