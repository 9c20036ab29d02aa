#include "tools/minuet/cloud/voxelize.h"

#include <cmath>
#include <limits>

#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/voxel_index.h"

namespace minuet::tool {
namespace {

bool is_finite(const Point& point) {
  for (const double value : point) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

llvm::Error voxel_of(const Position& position, int64_t row, const std::array<float, 3>& voxel_size,
                     int32_t (&voxel)[3]) {
  for (size_t axis = 0; axis < 3; ++axis) {
    const bool fits = std::abs(position[axis]) <= kLargestFloat;
    // The division must be in float32, as the comment of voxelize() in voxelize.h specifies.
    const float cell = fits ? std::floor(static_cast<float>(position[axis]) / voxel_size[axis]) : 0x1p31f;
    if (!(cell >= -0x1p31f && cell < 0x1p31f)) {
      return bad_input(
          "point {0} is at {1} = {2} m, which is outside int32 in voxels of {3} m: use a larger "
          "--voxel-size, or store the points nearer to 0",
          row, "xyz"[axis], digits(position[axis]), digits(static_cast<double>(voxel_size[axis])));
    }
    voxel[axis] = static_cast<int32_t>(cell);
  }
  return llvm::Error::success();
}

}  // namespace

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

llvm::Expected<VoxelCloud> voxelize(const std::vector<Point>& points, const VoxelSize& voxel_size,
                                    bool skip_invalid, const Position& origin) {
  MINUET_TRY(check_voxel_size(voxel_size));
  const std::array<float, 3> sizes = {static_cast<float>(voxel_size[0]), static_cast<float>(voxel_size[1]),
                                      static_cast<float>(voxel_size[2])};
  VoxelCloud cloud;
  cloud.points = static_cast<int64_t>(points.size());
  VoxelIndex index(points.size());
  std::vector<std::array<double, 4>> sums;
  std::vector<int64_t> counts;
  cloud.row_of_point.assign(points.size(), -1);
  for (int64_t i = 0; i < cloud.points; ++i) {
    const Point& point = points[static_cast<size_t>(i)];
    if (!is_finite(point)) {
      if (!skip_invalid) return refuse_not_finite(point, i);
      ++cloud.skipped;
      continue;
    }
    MINUET_TRY(check_intensity(point, i));
    const Position position = {point[0] - origin[0], point[1] - origin[1], point[2] - origin[2]};
    int32_t voxel[3];
    MINUET_TRY(voxel_of(position, i, sizes, voxel));
    const auto row = static_cast<size_t>(index.row_of(voxel, cloud.coordinates));
    cloud.row_of_point[static_cast<size_t>(i)] = static_cast<int64_t>(row);
    if (row == counts.size()) {
      counts.push_back(0);
      sums.push_back({});
    }
    ++counts[row];
    for (size_t axis = 0; axis < 3; ++axis) sums[row][axis] += position[axis];
    sums[row][3] += point[3];
  }
  cloud.features.reserve(4 * counts.size());
  for (size_t row = 0; row < counts.size(); ++row) {
    for (const double sum : sums[row]) {
      cloud.features.push_back(static_cast<float>(sum / static_cast<double>(counts[row])));
    }
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
