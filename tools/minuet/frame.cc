#include "tools/minuet/frame.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/minuet/error.h"

namespace minuet::tool {
namespace {

constexpr double kFineShare = 1e-3;   // of a voxel: no origin is needed
constexpr double kCoarseShare = 0.1;  // of a voxel: more is refused
constexpr double kWholeShare = 1e-6;  // of a voxel: how near to whole voxels an origin has to be

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

double reach_of(const Bounds& bounds, const Position& origin) {
  double reach = 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    reach = std::max(
        {reach, std::abs(bounds.least[axis] - origin[axis]), std::abs(bounds.greatest[axis] - origin[axis])});
  }
  return reach;
}

}  // namespace

double step_of(Scalar type, double value) {
  const double size = std::abs(value);
  if (type == Scalar::F64) return std::nextafter(size, std::numeric_limits<double>::infinity()) - size;
  const int digits = type == Scalar::F16 ? 11 : 24;
  return std::ldexp(1.0, std::max(std::ilogb(std::max(size, 1e-30)) - digits + 1, -149));
}

bool is_too_far(double reach, double voxel_size) {
  return step_of(Scalar::F32, reach) > kFineShare * voxel_size;
}

bool Frame::is_coarse() const { return step > kFineShare * voxel_size; }

std::optional<std::array<int64_t, 3>> Frame::whole_voxels() const {
  std::array<int64_t, 3> voxels = {};
  for (size_t axis = 0; axis < 3; ++axis) {
    const double cells = std::nearbyint(origin[axis] / voxel_size);
    if (!(std::abs(cells) < 0x1p53) ||
        std::abs(origin[axis] - cells * voxel_size) > kWholeShare * voxel_size) {
      return std::nullopt;
    }
    voxels[axis] = static_cast<int64_t>(cells);
  }
  return voxels;
}

llvm::Expected<Frame> choose_frame(const std::vector<Point>& points,
                                   const std::array<Scalar, 3>& position_types,
                                   const std::optional<Position>& origin, double voxel_size) {
  Frame frame;
  frame.voxel_size = voxel_size;
  const Bounds bounds = bounds_of(points);
  const double reach = reach_of(bounds, {});
  if (origin) {
    frame.origin = *origin;
  } else if (is_too_far(reach, voxel_size)) {
    for (size_t axis = 0; axis < 3; ++axis) {
      const double centre = 0.5 * bounds.least[axis] + 0.5 * bounds.greatest[axis];
      frame.origin[axis] = std::floor(centre / voxel_size) * voxel_size;
    }
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    const double out = std::max(std::abs(bounds.least[axis]), std::abs(bounds.greatest[axis]));
    const double stored = step_of(position_types[axis], out);
    frame.step = std::max(frame.step, stored);
    if (stored <= kCoarseShare * voxel_size) continue;
    return bad_input(
        "the points lie as far out as {0} m, where {1} numbers are {2} m apart: too coarse for voxels of {3} "
        "m (--voxel-size); store them {4}nearer to 0",
        digits(out), scalar_name(position_types[axis]), digits(stored), digits(voxel_size),
        position_types[axis] == Scalar::F64 ? "" : "as float64, or ");
  }
  const double behind = reach_of(bounds, frame.origin), left = step_of(Scalar::F32, behind);
  frame.step = std::max(frame.step, left);
  if (left > kCoarseShare * voxel_size) {
    return bad_input(
        "the points lie as far as {0} m from the origin, where float32 numbers are {1} m apart: too coarse "
        "for voxels of {2} m; use another --origin, a larger --voxel-size, or a part of the cloud",
        digits(behind), digits(left), digits(voxel_size));
  }
  return frame;
}

}  // namespace minuet::tool
