// The index of coordinate sets (kernels_templates/shared/voxel_index.h) on clouds that are hard for it: every
// map of every level against plain loops, and the order of rows; through the C ABI, on every device.
#include <algorithm>
#include <string>

#include "tests/runtime/maps/index_levels.h"

namespace minuet::abi {
namespace {

class IndexTest : public LevelsTest {
 protected:
  void expect_map(const Level& in, const Level& out, const oracle::Geometry& geometry) {
    SCOPED_TRACE("kernel " + std::to_string(geometry.kernel_size[0]) + ", dilation " +
                 std::to_string(geometry.dilation[0]) + (geometry.transposed ? ", transposed" : ""));
    const std::vector<int32_t> rows = first_rows(out.points, geometry.ndim);
    const std::vector<oracle::Pair> pairs = pairs_of(map_of(in.set.get(), out.set.get(), geometry).get()),
                                    expected = oracle::find_pairs(geometry, in.points, out.points, &rows);
    EXPECT_TRUE(pairs == expected) << pairs.size() << " pairs where " << expected.size() << " are";
  }
  /// Maps of each level to itself, and between it and the level that it was made of.
  void expect_maps(int ndim, const std::vector<Level>& levels) {
    const auto shape = [&](int32_t size, int32_t dilation, const Axes& stride, bool transposed = false) {
      return cube_of(ndim, size, dilation, stride, transposed);
    };
    for (size_t l = 0; l < levels.size(); ++l) {
      SCOPED_TRACE("level " + std::to_string(l));
      const Level& level = levels[l];
      expect_map(level, level, shape(3, 1, level.stride));
      expect_map(level, level, shape(2, 40, level.stride));
      if (ndim < 4) expect_map(level, level, shape(5, 1, level.stride));
      if (ndim < 3) expect_map(level, level, shape(11, 3, level.stride));
      if (l == 0) continue;
      const Level& fine = levels[static_cast<size_t>(kCoarser[l - 1].of)];
      for (const int32_t size : {2, 3}) {
        expect_map(fine, level, shape(size, 1, fine.stride));
        expect_map(level, fine, shape(size, 1, fine.stride, /*transposed=*/true));
      }
    }
  }
};

/// With a queue, all levels are in one index. Without one, each has an index of its own.
TEST_P(IndexTest, EveryMapOfEveryLevel) {
  const Queue queue = make_queue(machine());
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (const auto& [name, points] : make_clouds(ndim)) {
      for (minuet_queue* const with : {queue.get(), static_cast<minuet_queue*>(nullptr)}) {
        SCOPED_TRACE(std::to_string(ndim) + " axes, " + name + (with ? ", with a queue" : ""));
        expect_maps(ndim, make_levels(machine(), points, options_of(ndim, with)));
      }
    }
  }
}

/// The first of the caller's rows counts, whatever the order in which threads insert them.
TEST_P(IndexTest, EveryMapOfDuplicates) {
  const Points once = make_random(3, 150, 62);
  Points twice = once;
  const Points others = shuffled(once, 3, 63);
  twice.insert(twice.end(), others.begin(), others.end());
  const Queue queue = make_queue(machine());
  minuet_coordinates_options options = options_of(3, queue.get());
  options.keep_first_duplicate = 1;
  expect_maps(3, make_levels(machine(), twice, options));
}

/// Not on the order of the input, on bounds, on the other levels of the index, or on the device.
TEST_P(IndexTest, TheOrderOfRowsDependsOnTheSetAlone) {
  const Queue queue = make_queue(machine());
  std::string reason;
  Machine* const cpu = Machine::open("cpu", reason);
  ASSERT_TRUE(cpu) << reason;
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (const auto& [name, points] : make_clouds(ndim)) {
      SCOPED_TRACE(std::to_string(ndim) + " axes, " + name);
      const std::vector<Level> levels = make_levels(machine(), points, options_of(ndim));
      const auto expect_order = [&](const std::vector<Level>& others, const char* what) {
        for (size_t l = 1; l < levels.size(); ++l) {
          EXPECT_EQ(others[l].points, levels[l].points) << what << ", level " << l;
        }
      };
      const Points others = shuffled(points, ndim, 64);
      expect_order(make_levels(machine(), others, options_of(ndim)), "shuffled");
      expect_order(make_levels(machine(), others, options_of(ndim, queue.get())), "with a queue");
      minuet_coordinates_options tight = options_of(ndim);
      tight.has_bounds = 1;
      for (int f = 0; f <= ndim; ++f) {
        tight.least[f] = INT32_MAX, tight.greatest[f] = INT32_MIN;
        for (size_t i = static_cast<size_t>(f); i < points.size(); i += static_cast<size_t>(1 + ndim)) {
          tight.least[f] = std::min(tight.least[f], points[i]);
          tight.greatest[f] = std::max(tight.greatest[f], points[i]);
        }
      }
      expect_order(make_levels(machine(), points, tight), "within tight bounds");
      expect_order(make_levels(*cpu, points, options_of(ndim)), "on the CPU");
    }
  }
}

MINUET_INSTANTIATE_SETS_TEST(IndexTest);

}  // namespace
}  // namespace minuet::abi
