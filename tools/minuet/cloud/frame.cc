#include "tools/minuet/cloud/frame.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

// The origin is 0, and not near the points, if adjacent float32 positions are at most this fraction of a
// voxel apart.
constexpr double kFineShare = 1e-3;
// Positions are refused if adjacent numbers of their type are more than this fraction of a voxel apart.
constexpr double kCoarseShare = 0.1;
// An origin counts as a whole number of voxels if it deviates by at most this fraction of a voxel.
constexpr double kWholeShare = 1e-6;

struct Bounds {
  Position least = {}, greatest = {};
  bool any = false;
};

Bounds bounds_of(const std::vector<Point>& points) {
  Bounds bounds;
  for (const Point& point : points) {
    if (!std::isfinite(point[0]) || !std::isfinite(point[1]) || !std::isfinite(point[2])) continue;
    for (size_t axis = 0; axis < 3; ++axis) {
      bounds.least[axis] = bounds.any ? std::min(bounds.least[axis], point[axis]) : point[axis];
      bounds.greatest[axis] = bounds.any ? std::max(bounds.greatest[axis], point[axis]) : point[axis];
    }
    bounds.any = true;
  }
  return bounds;
}

/// Returns, for each axis, the largest distance of the points from the origin.
Position reach_of(const Bounds& bounds, const Position& origin) {
  Position reach = {};
  for (size_t axis = 0; axis < 3; ++axis) {
    reach[axis] =
        std::max(std::abs(bounds.least[axis] - origin[axis]), std::abs(bounds.greatest[axis] - origin[axis]));
  }
  return reach;
}

/// Stores `step`, the distance between adjacent positions on one axis, in `frame` if it is a larger fraction
/// of a voxel than all steps before it.
void note_step(double step, double voxel_size, Frame& frame) {
  if (step / voxel_size <= frame.step_voxels) return;
  frame.step = step;
  frame.step_voxels = step / voxel_size;
}

/// Returns the axis on which adjacent float32 positions are farthest apart, as a fraction of the voxel size.
/// If several axes are equal, returns the one with the largest reach.
size_t coarsest_axis(const Position& reach, const VoxelSize& voxel_size) {
  const auto coarseness = [&](size_t axis) {
    return std::pair(step_of(Scalar::F32, reach[axis]) / voxel_size[axis], reach[axis]);
  };
  size_t coarsest = 0;
  for (size_t axis = 1; axis < 3; ++axis) {
    if (coarseness(axis) > coarseness(coarsest)) coarsest = axis;
  }
  return coarsest;
}

bool are_equal(const VoxelSize& size) { return size[0] == size[1] && size[1] == size[2]; }

}  // namespace

std::string size_text(const VoxelSize& voxel_size) {
  if (are_equal(voxel_size)) return digits(voxel_size[0]);
  return digits(voxel_size[0]) + " x " + digits(voxel_size[1]) + " x " + digits(voxel_size[2]);
}

llvm::json::Value size_json(const VoxelSize& voxel_size) {
  if (are_equal(voxel_size)) return voxel_size[0];
  return llvm::json::Array(voxel_size);
}

double step_of(Scalar type, double value) {
  const double size = std::abs(value);
  if (type == Scalar::F64) return std::nextafter(size, std::numeric_limits<double>::infinity()) - size;
  const int digits = type == Scalar::F16 ? 11 : 24;
  return std::ldexp(1.0, std::max(std::ilogb(std::max(size, 1e-30)) - digits + 1, -149));
}

bool is_too_far(const Position& reach, const VoxelSize& voxel_size) {
  for (size_t axis = 0; axis < 3; ++axis) {
    if (step_of(Scalar::F32, reach[axis]) > kFineShare * voxel_size[axis]) return true;
  }
  return false;
}

bool Frame::is_coarse() const { return step_voxels > kFineShare; }

std::optional<std::array<int64_t, 3>> Frame::whole_voxels() const {
  std::array<int64_t, 3> voxels = {};
  for (size_t axis = 0; axis < 3; ++axis) {
    const double size = voxel_size[axis], cells = std::nearbyint(origin[axis] / size);
    if (!(std::abs(cells) < 0x1p53) || std::abs(origin[axis] - cells * size) > kWholeShare * size) {
      return std::nullopt;
    }
    voxels[axis] = static_cast<int64_t>(cells);
  }
  return voxels;
}

llvm::Expected<Frame> choose_frame(const std::vector<Point>& points,
                                   const std::array<Scalar, 3>& position_types,
                                   const std::optional<Position>& origin, const VoxelSize& voxel_size) {
  Frame frame;
  frame.voxel_size = voxel_size;
  const Bounds bounds = bounds_of(points);
  if (origin) {
    frame.origin = *origin;
  } else if (is_too_far(reach_of(bounds, {}), voxel_size)) {
    for (size_t axis = 0; axis < 3; ++axis) {
      const double centre = 0.5 * bounds.least[axis] + 0.5 * bounds.greatest[axis];
      frame.origin[axis] = std::floor(centre / voxel_size[axis]) * voxel_size[axis];
    }
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    const double out = std::max(std::abs(bounds.least[axis]), std::abs(bounds.greatest[axis]));
    const double stored = step_of(position_types[axis], out);
    note_step(stored, voxel_size[axis], frame);
    if (stored <= kCoarseShare * voxel_size[axis]) continue;
    return bad_input(
        "the points are up to {0} m from 0, where {1} numbers are {2} m apart: too coarse for voxels of {3} "
        "m; use a larger --voxel-size, or store the points {4}nearer to 0",
        digits(out), scalar_name(position_types[axis]), digits(stored), digits(voxel_size[axis]),
        position_types[axis] == Scalar::F64 ? "" : "as float64, or ");
  }
  const Position behind = reach_of(bounds, frame.origin);
  const size_t worst = coarsest_axis(behind, voxel_size);
  const double left = step_of(Scalar::F32, behind[worst]);
  note_step(left, voxel_size[worst], frame);
  if (left > kCoarseShare * voxel_size[worst]) {
    return bad_input(
        "the points are up to {0} m from the origin, where float32 numbers are {1} m apart: too coarse for "
        "voxels of {2} m; use another --origin, a larger --voxel-size, or a part of the cloud",
        digits(behind[worst]), digits(left), digits(voxel_size[worst]));
  }
  return frame;
}

}  // namespace minuet::tool
