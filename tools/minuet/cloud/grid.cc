#include "tools/minuet/cloud/grid.h"

#include <cmath>
#include <limits>

#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/scalar.h"
#include "tools/minuet/cloud/voxelize.h"

namespace minuet::tool {
namespace {

/// Limits the cells of a grid along each axis. The library's coordinates are at most 2^24 from 0.
constexpr double kMostCells = 1 << 24;

}  // namespace

llvm::Error parse_range(const std::string& text, Position& low, Position& high) {
  llvm::SmallVector<llvm::StringRef, 8> words;
  llvm::StringRef(text).split(words, ',');
  if (words.size() != 6) {
    return bad_input(
        "--range '{0}' has {1} numbers: give six, the least x, y and z and then the greatest x, y and z",
        text, words.size());
  }
  for (size_t i = 0; i < 6; ++i) {
    const std::optional<double> value = parse_double(words[i].trim());
    if (!value || !(std::abs(*value) <= kLargestFloat))
      return bad_input("--range '{0}': '{1}' is not a finite number", text, words[i].trim());
    (i < 3 ? low : high)[i % 3] = *value;
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    if (static_cast<float>(low[axis]) < static_cast<float>(high[axis])) continue;
    return bad_input(
        "--range '{0}' goes from {1} to {2} along {3}: the first number must be the smaller one (the order "
        "is x0,y0,z0,x1,y1,z1)",
        text, digits(low[axis]), digits(high[axis]), "xyz"[axis]);
  }
  return llvm::Error::success();
}

llvm::Expected<Grid> make_grid(const Position& low, const Position& high, const VoxelSize& voxel_size) {
  MINUET_TRY(check_voxel_size(voxel_size));
  Grid grid;
  grid.low = low, grid.high = high, grid.voxel_size = voxel_size;
  for (size_t axis = 0; axis < 3; ++axis) {
    const double cells = std::round((high[axis] - low[axis]) / voxel_size[axis]);
    if (!(cells >= 1 && cells <= kMostCells)) {
      return bad_input(
          "the range from {0} to {1} m along {2} has {3} voxels of {4} m, but there must be 1 to {5}: change "
          "--range or --voxel-size",
          digits(low[axis]), digits(high[axis]), "xyz"[axis], digits(cells), digits(voxel_size[axis]),
          digits(kMostCells));
    }
    grid.cells[axis] = grid.shape[axis] = static_cast<int32_t>(cells);
  }
  return grid;
}

llvm::Expected<VoxelCloud> voxelize_in(const std::vector<Point>& points, const Grid& grid,
                                       const VoxelLimits& limits, bool skip_invalid,
                                       const Voxelizer& voxelizer) {
  VoxelizeTask task;
  task.low = in_float32(grid.low), task.high = in_float32(grid.high);
  task.voxel_size = in_float32(grid.voxel_size);
  task.points.reserve(4 * points.size());
  // Only points inside of the grid need an intensity, and only the device knows which these are.
  bool has_wrong_intensities = false;
  for (const Point& point : points) {
    append_point(task.points, {point[0], point[1], point[2]}, point[3]);
    has_wrong_intensities |= !(std::abs(point[3]) <= kLargestFloat);
  }
  int64_t skipped = 0;
  if (has_wrong_intensities) {
    // Without limits, every point inside has a row.
    MINUET_ASSIGN(const VoxelCloud all, voxelizer(task));
    for (size_t i = 0; i < points.size(); ++i) {
      if (all.row_of_point[i] < 0) continue;
      if (std::isfinite(points[i][3])) {
        MINUET_TRY(check_intensity(points[i], static_cast<int64_t>(i)));
      } else if (!skip_invalid) {
        return refuse_not_finite(points[i], static_cast<int64_t>(i));
      } else {
        task.points[4 * i] = std::numeric_limits<float>::quiet_NaN();
        ++skipped;
      }
    }
  }
  task.most_points = limits.points, task.most_voxels = limits.voxels;
  MINUET_ASSIGN(VoxelCloud cloud, voxelizer(task));
  // A point whose position is not finite is in no cell of the grid.
  cloud.outside += cloud.skipped - skipped;
  cloud.skipped = skipped;
  return cloud;
}

void add_zero_channels(VoxelCloud& cloud, int channels) {
  if (channels <= cloud.channels) return;
  std::vector<float> wider;
  wider.reserve(static_cast<size_t>(cloud.count()) * static_cast<size_t>(channels));
  for (int64_t row = 0; row < cloud.count(); ++row) {
    const auto begin = cloud.features.begin() + row * cloud.channels;
    wider.insert(wider.end(), begin, begin + cloud.channels);
    wider.resize(wider.size() + static_cast<size_t>(channels - cloud.channels), 0.0f);
  }
  cloud.features = std::move(wider);
  cloud.channels = channels;
}

}  // namespace minuet::tool
