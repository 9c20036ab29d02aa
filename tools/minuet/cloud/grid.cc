#include "tools/minuet/cloud/grid.h"

#include <cmath>
#include <limits>

#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/scalar.h"
#include "tools/minuet/cloud/voxel_index.h"
#include "tools/minuet/cloud/voxelize.h"

namespace minuet::tool {
namespace {

/// Limits the cells of a grid along each axis. The library's coordinates are at most 2^24 from 0.
constexpr double kMostCells = 1 << 24;

/// Holds the numbers of a grid in float32, in which cells are counted.
struct FloatGrid {
  explicit FloatGrid(const Grid& grid) : cells(grid.cells) {
    for (size_t axis = 0; axis < 3; ++axis) {
      low[axis] = static_cast<float>(grid.low[axis]);
      high[axis] = static_cast<float>(grid.high[axis]);
      size[axis] = static_cast<float>(grid.voxel_size[axis]);
    }
  }

  /// Returns whether the point is inside the grid, and sets `voxel` if it is.
  bool find(const Point& point, int32_t (&voxel)[3]) const {
    for (size_t axis = 0; axis < 3; ++axis) {
      // A number past the range of float32 cannot be converted. The negation makes NaN count as outside.
      if (!(std::abs(point[axis]) <= std::numeric_limits<float>::max())) return false;
      const auto position = static_cast<float>(point[axis]);
      if (!(position >= low[axis] && position < high[axis])) return false;
      const float cell = std::floor((position - low[axis]) / size[axis]);
      if (!(cell < static_cast<float>(cells[axis]))) return false;
      voxel[axis] = static_cast<int32_t>(cell);
    }
    return true;
  }

  std::array<float, 3> low, high, size;
  std::array<int32_t, 3> cells;
};

/// Sums the numbers of each voxel's points.
struct VoxelSums {
  std::vector<std::array<double, 4>> sums;
  std::vector<int64_t> counts;

  /// Adds a point to a voxel. Returns false if the voxel has `most` points already.
  bool add(const Point& point, size_t row, int64_t most) {
    if (row == counts.size()) {
      counts.push_back(0);
      sums.push_back({});
    }
    if (most > 0 && counts[row] >= most) return false;
    ++counts[row];
    for (size_t column = 0; column < 4; ++column) sums[row][column] += point[column];
    return true;
  }

  std::vector<float> means() const {
    std::vector<float> means;
    means.reserve(4 * counts.size());
    for (size_t row = 0; row < counts.size(); ++row) {
      for (const double sum : sums[row])
        means.push_back(static_cast<float>(sum / static_cast<double>(counts[row])));
    }
    return means;
  }
};

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
                                       const VoxelLimits& limits, bool skip_invalid) {
  const FloatGrid cells(grid);
  VoxelCloud cloud;
  cloud.points = static_cast<int64_t>(points.size());
  cloud.row_of_point.assign(points.size(), -1);
  VoxelIndex index(points.size());
  VoxelSums sums;
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    int32_t voxel[3];
    if (!cells.find(point, voxel)) {
      ++cloud.outside;
      continue;
    }
    if (!std::isfinite(point[3])) {
      if (!skip_invalid) return refuse_not_finite(point, static_cast<int64_t>(i));
      ++cloud.skipped;
      continue;
    }
    MINUET_TRY(check_intensity(point, static_cast<int64_t>(i)));
    const int64_t row = index.row_of(voxel, cloud.coordinates, limits.voxels);
    cloud.row_of_point[i] = row;
    if (row < 0) {
      ++cloud.past_voxels;
    } else if (!sums.add(point, static_cast<size_t>(row), limits.points)) {
      ++cloud.past_points;
    }
  }
  cloud.features = sums.means();
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
