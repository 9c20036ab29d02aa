// What tests of sets in an index of voxels (kernels_templates/shared/voxel_index.h) share: a caller's set
// and coarser ones of it, with strides of 1, 2, 3 and 5, through the C ABI.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/runtime/maps/index_clouds.h"
#include "tests/support/by_hand.h"
#include "tests/support/oracle.h"

namespace minuet::abi {

using oracle::Axes;

/// The first row of each coordinate.
inline std::vector<int32_t> first_rows(const Points& points, int ndim) {
  const std::vector<int32_t> order = ascending_rows(points, ndim);
  const size_t fields = static_cast<size_t>(1 + ndim);
  std::vector<int32_t> rows;
  for (const int32_t row : order) {
    const auto at = [&](int32_t of) { return points.begin() + static_cast<std::ptrdiff_t>(of * fields); };
    if (rows.empty() || !std::equal(at(row), at(row) + static_cast<std::ptrdiff_t>(fields), at(rows.back())))
      rows.push_back(row);
  }
  return rows;
}

/// Sets of a test: a caller's, then coarser ones, each of an earlier one.
inline constexpr struct {
  int of;
  Axes stride;
} kCoarser[] = {{0, {2, 2, 2, 2}}, {0, {3, 1, 5, 3}}, {1, {5, 3, 1, 1}}, {1, {1, 2, 2, 2}}};

class LevelsTest : public SetsOnDevice {
 protected:
  struct Level {
    Coordinates set;
    Axes stride;
    Points points;  // in the order of its rows
  };

  static minuet_coordinates_options options_of(int ndim, minuet_queue* queue = nullptr) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.ndim = ndim;
    options.queue = queue;
    return options;
  }
  /// Makes all sets before any of them is asked for its rows.
  static std::vector<Level> make_sets(Machine& machine, const Points& points,
                                      const minuet_coordinates_options& options) {
    const int ndim = options.ndim;
    std::vector<Level> levels;
    levels.push_back({make_set(machine, ndim, points, {1, 1, 1, 1}, options), {1, 1, 1, 1}, points});
    for (const auto& [of, stride] : kCoarser) {
      const Level& fine = levels[static_cast<size_t>(of)];
      Axes own{1, 1, 1, 1};
      std::copy_n(stride.begin(), ndim, own.begin());
      Level coarse{downsample(fine.set.get(), own), fine.stride, {}};
      for (int a = 0; a < ndim; ++a) coarse.stride[a] *= stride[a];
      levels.push_back(std::move(coarse));
    }
    return levels;
  }
  /// The same; expects that each set has its coordinates.
  static std::vector<Level> make_levels(Machine& machine, const Points& points,
                                        const minuet_coordinates_options& options) {
    const int ndim = options.ndim;
    std::vector<Level> levels = make_sets(machine, points, options);
    for (Level& level : levels) {
      if (&level == &levels.front()) {
        EXPECT_EQ(coordinates_of(machine, level.set.get(), ndim), points);
      } else {
        level.points = expect_coordinates(machine, level.set.get(), ndim,
                                          oracle::downsample(ndim, points, level.stride));
      }
    }
    return levels;
  }
  /// A kernel of the same size and dilation on each axis.
  static oracle::Geometry cube_of(int ndim, int32_t size, int32_t dilation, const Axes& stride,
                                  bool transposed = false) {
    oracle::Geometry geometry{ndim, {1, 1, 1, 1}, {1, 1, 1, 1}, stride, transposed};
    for (int a = 0; a < ndim; ++a) geometry.kernel_size[a] = size, geometry.dilation[a] = dilation;
    return geometry;
  }
};

}  // namespace minuet::abi
