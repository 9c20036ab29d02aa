#include "tools/minuet/cloud/voxelize.h"

#include <cmath>
#include <limits>

#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

/// Returns the error for a point whose coordinates are outside int32.
llvm::Error refuse_far(const Position& position, int64_t row, const std::array<float, 3>& voxel_size) {
  const auto fits = [&](size_t axis) {
    if (!(std::abs(position[axis]) <= kLargestFloat)) return false;
    const float cell = std::floor(static_cast<float>(position[axis]) / voxel_size[axis]);
    return cell >= -0x1p31f && cell < 0x1p31f;
  };
  const size_t axis = !fits(0) ? 0 : !fits(1) ? 1 : 2;
  return bad_input(
      "point {0} is at {1} = {2} m, which is outside int32 in voxels of {3} m: use a larger --voxel-size, or "
      "store the points nearer to 0",
      row, "xyz"[axis], digits(position[axis]), digits(static_cast<double>(voxel_size[axis])));
}

}  // namespace

bool is_finite(const Point& point) {
  for (const double value : point) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

llvm::Error refuse_not_finite(const Point& point, int64_t row) {
  return bad_input(
      "point {0} is ({1}, {2}, {3}, intensity {4}), which is not finite: --skip-invalid drops such points",
      row, digits(point[0]), digits(point[1]), digits(point[2]), digits(point[3]));
}

llvm::Error check_intensity(const Point& point, int64_t row) {
  if (!(std::abs(point[3]) > kLargestFloat)) return llvm::Error::success();
  return bad_input(
      "point {0} has intensity {1}, but the largest float32 number is {2}: scale the intensities down", row,
      digits(point[3]), digits(kLargestFloat));
}

llvm::Error check_voxel_size(const VoxelSize& voxel_size) {
  const bool is_cubic = voxel_size[0] == voxel_size[1] && voxel_size[1] == voxel_size[2];
  for (size_t axis = 0; axis < 3; ++axis) {
    const float stored = static_cast<float>(voxel_size[axis]);
    if (std::isfinite(stored) && stored > 0) continue;
    return bad_input(
        "the voxel size (--voxel-size) must be a positive number of metres that float32 can hold, but {0}it "
        "is {1}",
        is_cubic ? "" : std::string("along ") + "xyz"[axis] + " ", digits(voxel_size[axis]));
  }
  return llvm::Error::success();
}

std::array<float, 3> in_float32(const std::array<double, 3>& numbers) {
  return {static_cast<float>(numbers[0]), static_cast<float>(numbers[1]), static_cast<float>(numbers[2])};
}

void append_point(std::vector<float>& points, const Position& position, double intensity) {
  // A conversion of a number past the range of float32 is undefined.
  const auto append = [&](double number) {
    const bool is_large = std::abs(number) > kLargestFloat;
    points.push_back(is_large ? std::numeric_limits<float>::infinity() : static_cast<float>(number));
  };
  for (const double number : position) append(number);
  append(intensity);
}

void append_dropped(std::vector<float>& points) {
  points.insert(points.end(), {std::numeric_limits<float>::quiet_NaN(), 0, 0, 0});
}

llvm::Expected<VoxelCloud> voxelize(const std::vector<Point>& points, const VoxelSize& voxel_size,
                                    bool skip_invalid, const Voxelizer& voxelizer, const Position& origin) {
  MINUET_TRY(check_voxel_size(voxel_size));
  const auto position_of = [&](const Point& point) {
    return Position{point[0] - origin[0], point[1] - origin[1], point[2] - origin[2]};
  };
  VoxelizeTask task;
  task.voxel_size = in_float32(voxel_size);
  task.points.reserve(4 * points.size());
  int64_t skipped = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    if (is_finite(point)) {
      MINUET_TRY(check_intensity(point, static_cast<int64_t>(i)));
      append_point(task.points, position_of(point), point[3]);
    } else if (skip_invalid) {
      append_dropped(task.points);
      ++skipped;
    } else {
      return refuse_not_finite(point, static_cast<int64_t>(i));
    }
  }
  MINUET_ASSIGN(VoxelCloud cloud, voxelizer(task));
  for (size_t i = 0; cloud.skipped + cloud.outside > skipped && i < points.size(); ++i) {
    if (cloud.row_of_point[i] >= 0 || !is_finite(points[i])) continue;
    return refuse_far(position_of(points[i]), static_cast<int64_t>(i), task.voxel_size);
  }
  return cloud;
}

std::vector<Point> centres_of(const Cloud& voxels, const VoxelSize& voxel_size) {
  std::vector<Point> centres(static_cast<size_t>(voxels.count()), Point{});
  const auto width = static_cast<size_t>(1 + voxels.ndim);
  for (size_t row = 0; row < centres.size(); ++row) {
    for (size_t axis = 0; axis < 3 && axis + 1 < width; ++axis) {
      const double centre = static_cast<double>(voxels.voxels[row * width + 1 + axis]) + 0.5;
      centres[row][axis] = centre * voxel_size[axis];
    }
  }
  return centres;
}

VoxelCloud features_from_centres(const Cloud& voxels, const VoxelSize& voxel_size, const Position& origin) {
  std::vector<float> features;
  features.reserve(4 * static_cast<size_t>(voxels.count()));
  for (const Point& centre : centres_of(voxels, voxel_size)) {
    for (size_t axis = 0; axis < 3; ++axis)
      features.push_back(static_cast<float>(centre[axis] - origin[axis]));
    features.push_back(0);
  }
  return with_features(voxels, std::move(features), 4);
}

VoxelCloud with_features(const Cloud& voxels, std::vector<float> features, int channels) {
  VoxelCloud cloud;
  cloud.ndim = voxels.ndim;
  cloud.channels = channels;
  cloud.coordinates = voxels.voxels;
  cloud.features = std::move(features);
  cloud.points = voxels.count();
  return cloud;
}

}  // namespace minuet::tool
