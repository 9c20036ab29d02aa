// Sets that a kernel as large as its stride reaches: without padding, each voxel reaches the cell that
// contains it, so the sets are made as coarser ones are. Their rows and the order of these stay those of the
// rule "reached", also where a shape lacks cells. In pyramids, alone, on every device.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <set>

#include "include/minuet/pyramid.h"
#include "tests/support/abi.h"
#include "tests/support/by_hand.h"
#include "tests/support/random.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {
namespace {

using oracle::Axes;
using testing::HasSubstr;
using Level = minuet_pyramid_level;

constexpr int64_t kCapacity = 1 << 15;

/// Different points: batch 0 to 2, axis a from `least` to `least` + extent[a] - 1, in no order.
std::vector<int32_t> points_in(uint64_t seed, int ndim, int count, int32_t least, const Axes& extent) {
  Random random(seed);
  std::set<std::vector<int32_t>> seen;
  std::vector<int32_t> coordinates;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> point{static_cast<int32_t>(random.below(3))};
    for (int a = 0; a < ndim; ++a) {
      point.push_back(least + static_cast<int32_t>(random.below(static_cast<uint64_t>(extent[a]))));
    }
    if (seen.insert(point).second) coordinates.insert(coordinates.end(), point.begin(), point.end());
  }
  return coordinates;
}

Axes product(const Axes& one, const Axes& other) {
  Axes both;
  for (size_t a = 0; a < both.size(); ++a) both[a] = one[a] * other[a];
  return both;
}

Level first_level() {
  Level level{};
  level.capacity = kCapacity;
  level.parent = -1;
  return level;
}

Level rounded_level(int32_t parent, const Axes& stride, int ndim) {
  Level level = first_level();
  level.parent = parent;
  std::copy_n(stride.begin(), ndim, level.stride);
  return level;
}

/// By a kernel as large as the stride. `shape` is all 0 for a level without limits.
Level reached_level(int32_t parent, const Axes& stride, int ndim, const Axes& shape = {}) {
  Level level = rounded_level(parent, stride, ndim);
  level.is_reached = 1;
  std::copy_n(stride.begin(), ndim, level.kernel_size);
  std::copy_n(shape.begin(), ndim, level.shape);
  return level;
}

/// Another op: a kernel of 3 with padding 1.
Level dilated_level(int32_t parent, int ndim) {
  Level level = reached_level(parent, {1, 1, 1, 1}, ndim);
  for (int a = 0; a < ndim; ++a) level.kernel_size[a] = 3, level.padding[a] = 1;
  return level;
}

using Bounds = std::optional<std::array<int32_t, 2>>;

/// What a build of a pyramid makes.
struct Built {
  uint32_t status = ~0u;
  std::vector<int32_t> counts;
  std::vector<std::vector<int32_t>> levels;  // coordinates, in the order of the rows
  int64_t launches = 0;                      // on the software device, else 0

  bool operator==(const Built& other) const {
    return status == other.status && counts == other.counts && levels == other.levels;
  }
};

class RoundedSetsTest : public SetsOnDevice {
 protected:
  int64_t launches() const {
    return control_ && !machine().is_cpu() ? control_->calls("cuLaunchKernelEx") : 0;
  }
  /// `bounds` are those of each axis.
  Built build(int ndim, const std::vector<Level>& levels, const std::vector<int32_t>& points,
              const Bounds& bounds = {}) {
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.ndim = ndim;
    options.levels = levels.data();
    options.level_count = static_cast<int32_t>(levels.size());
    options.keep_coordinates = (1u << levels.size()) - 1;
    options.has_bounds = bounds.has_value();
    options.greatest[0] = 2;
    for (int a = 1; bounds && a <= ndim; ++a)
      options.least[a] = (*bounds)[0], options.greatest[a] = (*bounds)[1];
    minuet_pyramid* made = nullptr;
    check(minuet_pyramid_create(machine().context(), &options, &made));
    const Handle<minuet_pyramid> pyramid(made, {minuet_pyramid_destroy});
    check(minuet_pyramid_load(made, machine().device()));
    int64_t bytes = 0, workspace_bytes = 0;
    check(minuet_pyramid_bytes(made, machine().arch().c_str(), &bytes, &workspace_bytes));
    const Buffer buffer(machine(), bytes), workspace(machine(), workspace_bytes), given(machine(), points),
        status(machine(), 4), counts(machine(), 4 * (1 + static_cast<int64_t>(levels.size())));
    minuet_pyramid_arguments arguments = MINUET_PYRAMID_ARGUMENTS_INIT;
    arguments.buffer = buffer.data(), arguments.buffer_bytes = bytes;
    arguments.workspace = workspace.data(), arguments.workspace_bytes = workspace_bytes;
    arguments.coordinates = given.integers();
    arguments.most = static_cast<int64_t>(points.size()) / (1 + ndim);
    arguments.status = static_cast<uint32_t*>(status.data());
    arguments.counts = static_cast<int32_t*>(counts.data());
    const int64_t before = launches();
    check(minuet_pyramid_build(made, machine().device(), &arguments, nullptr));
    Built built;
    built.launches = launches() - before;
    built.status = status.read<uint32_t>()[0];
    built.counts = counts.read<int32_t>();
    for (size_t l = 0; l < levels.size(); ++l) {
      const Buffer coordinates(machine(), kCapacity * (1 + ndim) * 4);
      check(minuet_pyramid_coordinates(made, machine().device(), buffer.data(), bytes,
                                       static_cast<int32_t>(l), static_cast<int32_t*>(coordinates.data()),
                                       nullptr));
      built.levels.push_back(coordinates.read<int32_t>());
      built.levels.back().resize(static_cast<size_t>(built.counts[l + 1] * (1 + ndim)));
    }
    return built;
  }
  Coordinates reach_of(minuet_coordinates* parent, const Axes& stride, int ndim, const Axes& shape = {}) {
    minuet_reach_options options = MINUET_REACH_OPTIONS_INIT;
    std::copy_n(stride.begin(), ndim, options.kernel_size);
    std::copy_n(stride.begin(), ndim, options.stride);
    std::copy_n(shape.begin(), ndim, options.shape);
    minuet_coordinates* made = nullptr;
    check(minuet_coordinates_reach(parent, &options, nullptr, &made));
    return Coordinates(made, {minuet_coordinates_destroy});
  }
  void SetUp() override {
    SetsOnDevice::SetUp();
    control_ = software_cuda::Control::find();
  }
  Machine& machine() const { return const_cast<RoundedSetsTest*>(this)->SetsOnDevice::machine(); }
  /// Counts the launches that set the counts of a failed cloud to 0. A build needs one only if levels are
  /// made of the rows of other levels.
  static constexpr int64_t kVoiding = 1;
  /// Expects that `built` and `as_many`, whose levels are all rounded, took equally many launches, and that
  /// `reached` took `more` launches for its levels, and those of kVoiding.
  void expect_launches(const Built& built, const Built& as_many, const Built& reached, int64_t more) const {
    EXPECT_EQ(built.launches, as_many.launches);
    if (control_ && !machine().is_cpu()) {
      EXPECT_EQ(built.launches + more + kVoiding, reached.launches);
    }
  }

 private:
  std::optional<software_cuda::Control> control_;
};

/// What the dense convolution reaches, by the definition.
std::vector<int32_t> expected_reach(int ndim, const std::vector<int32_t>& points, const Axes& parent_stride,
                                    const Axes& stride, const Axes& shape = {}) {
  oracle::Geometry geometry{ndim, stride, {1, 1, 1, 1}, parent_stride};
  geometry.is_dense = true;
  return oracle::reach(geometry, stride, shape, points);
}

/// Kernels of 1 to 3 cells on each axis, three levels deep, and below a level that really is reached.
TEST_P(RoundedSetsTest, PyramidsWithoutShapes) {
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE("axes " + std::to_string(ndim) + ", seed " + std::to_string(seed));
      Random random(seed);
      std::vector<Axes> strides(4, Axes{1, 1, 1, 1});
      for (Axes& stride : strides) {
        for (int a = 0; a < ndim; ++a) stride[a] = static_cast<int32_t>(random.between(1, 3));
        stride[0] = static_cast<int32_t>(random.between(2, 3));
      }
      std::vector<Level> by_reach{first_level()}, by_cells = by_reach;
      for (int32_t l = 1; l <= 3; ++l) {
        by_reach.push_back(reached_level(l - 1, strides[l - 1], ndim));
        by_cells.push_back(rounded_level(l - 1, strides[l - 1], ndim));
      }
      for (std::vector<Level>* const levels : {&by_reach, &by_cells})
        levels->push_back(dilated_level(1, ndim));
      by_reach.push_back(reached_level(4, strides[3], ndim));
      by_cells.push_back(rounded_level(4, strides[3], ndim));
      for (const int count : {300, 0, 1}) {
        const std::vector<int32_t> points = points_in(seed + 10, ndim, count, -13, {27, 27, 27, 27});
        const Built made = build(ndim, by_reach, points), expected = build(ndim, by_cells, points);
        EXPECT_EQ(made.status, 0u);
        EXPECT_TRUE(made == expected);
        Axes tensor_stride{1, 1, 1, 1};
        for (size_t l = 1; l <= 3; ++l) {
          EXPECT_EQ(ascending(made.levels[l], ndim),
                    expected_reach(ndim, made.levels[l - 1], tensor_stride, strides[l - 1]));
          tensor_stride = product(tensor_stride, strides[l - 1]);
        }
        EXPECT_EQ(ascending(made.levels[5], ndim),
                  expected_reach(ndim, made.levels[4], strides[0], strides[3]));
        EXPECT_EQ(made.launches, expected.launches);
      }
    }
  }
}

/// Without bounds, a shape that no voxel leaves keeps the rule, which gives rows in the same order.
TEST_P(RoundedSetsTest, TheOrderOfRowsIsThatOfTheRule) {
  const Axes stride{2, 3, 2, 1};
  for (int ndim = 1; ndim <= 4; ++ndim) {
    std::vector<Level> plain{first_level()}, wide = plain, cells = plain;
    for (int32_t l = 1; l <= 3; ++l) {
      plain.push_back(reached_level(l - 1, stride, ndim));
      wide.push_back(reached_level(l - 1, stride, ndim, {99, 99, 99, 99}));
      cells.push_back(rounded_level(l - 1, stride, ndim));
    }
    const std::vector<int32_t> points = points_in(3, ndim, 400, 0, {60, 40, 30, 9});
    const Built made = build(ndim, plain, points), reached = build(ndim, wide, points);
    EXPECT_TRUE(made == reached) << ndim;
    // Each level that is reached takes four launches of its own.
    expect_launches(made, build(ndim, cells, points), reached, 3 * 4);
  }
}

/// Bounds that are the shape: a level loses its last cells where the stride does not divide it.
TEST_P(RoundedSetsTest, ShapesWithinBounds) {
  const Axes two{2, 2, 2, 2};
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (const int32_t cells : {16, 15, 22, 17}) {
      SCOPED_TRACE("axes " + std::to_string(ndim) + ", cells " + std::to_string(cells));
      std::vector<Level> levels{first_level()}, rounded = levels;
      int64_t reached_levels = 0;
      for (int32_t l = 1; l <= 3; ++l) {
        const int32_t last = cells >> l;
        levels.push_back(reached_level(l - 1, two, ndim, {last, last, last, last}));
        rounded.push_back(rounded_level(l - 1, two, ndim));
        // A level behind one that is reached is not made with the others.
        if (reached_levels > 0 || (cells >> (l - 1)) % 2 == 1) ++reached_levels;
      }
      const std::vector<int32_t> points = points_in(7, ndim, 500, 0, {cells, cells, cells, cells});
      const Built made = build(ndim, levels, points, {{0, cells - 1}}), free = build(ndim, levels, points);
      EXPECT_EQ(made.status, 0u);
      EXPECT_TRUE(made == free);
      Axes tensor_stride{1, 1, 1, 1};
      for (size_t l = 1; l <= 3; ++l) {
        const int32_t last = cells >> l;
        EXPECT_EQ(ascending(made.levels[l], ndim),
                  expected_reach(ndim, made.levels[l - 1], tensor_stride, two, {last, last, last, last}));
        tensor_stride = product(tensor_stride, two);
      }
      const Built cut = build(ndim, rounded, points, {{0, cells - 1}});
      EXPECT_EQ(made == cut, reached_levels == 0);
      if (reached_levels == 0) expect_launches(made, cut, free, 3 * 4);
      const int64_t more = 4 * (3 - reached_levels) + (reached_levels == 0 ? kVoiding : 0);
      EXPECT_TRUE(free.launches == 0 || free.launches - made.launches == more);
    }
  }
}

/// Voxels outside of a shape reach nothing, and those outside of declared bounds void the cloud.
TEST_P(RoundedSetsTest, VoxelsOutsideOfAShape) {
  const std::vector<Level> levels{first_level(), reached_level(0, {2, 2, 2, 1}, 3, {4, 4, 4, 0})};
  const std::vector<int32_t> points{0, 1, 2, 3, /**/ 0, 8, 1, 1, /**/ 0, 1, -1, 1, /**/ 1, 7, 7, 7};
  const std::vector<int32_t> inside{0, 0, 2, 2, /**/ 1, 6, 6, 6};
  for (const Bounds& bounds : {Bounds(), Bounds({-1, 8}), Bounds({-100, 100})}) {
    const Built made = build(3, levels, points, bounds);
    EXPECT_EQ(made.status, 0u);
    EXPECT_EQ(ascending(made.levels[1], 3), inside);
  }
  const Built outside = build(3, levels, points, {{0, 7}});
  EXPECT_EQ(outside.status, static_cast<uint32_t>(MINUET_CLOUD_OUT_OF_BOUNDS));
  EXPECT_EQ(outside.counts, (std::vector<int32_t>{0, 0, 0}));
}

/// One level too few rows for a cloud.
TEST_P(RoundedSetsTest, CapacitiesThatAreTooSmall) {
  std::vector<Level> levels{first_level(), reached_level(0, {2, 2, 2, 1}, 3),
                            reached_level(1, {2, 2, 2, 1}, 3)};
  const std::vector<int32_t> points = points_in(4, 3, 300, -20, {40, 40, 40, 1});
  const Built whole = build(3, levels, points);
  for (size_t l = 1; l < levels.size(); ++l) {
    levels[l].capacity = whole.counts[l + 1];
    EXPECT_TRUE(build(3, levels, points) == whole);
    --levels[l].capacity;
    const Built full = build(3, levels, points);
    EXPECT_EQ(full.status, static_cast<uint32_t>(MINUET_CLOUD_PAST_CAPACITY));
    EXPECT_EQ(full.counts, std::vector<int32_t>(4));
    levels[l].capacity = kCapacity;
  }
}

/// A pyramid may have a level by each rule, although both have the same coordinates.
TEST_P(RoundedSetsTest, BothRulesInOnePyramid) {
  const Axes two{2, 2, 2, 1};
  const std::vector<Level> levels{first_level(), reached_level(0, two, 3), rounded_level(0, two, 3),
                                  rounded_level(1, two, 3), reached_level(2, two, 3)};
  const Built made = build(3, levels, points_in(4, 3, 300, -20, {40, 40, 40, 1}));
  EXPECT_EQ(made.status, 0u);
  EXPECT_EQ(made.levels[1], made.levels[2]);
  EXPECT_EQ(made.levels[3], made.levels[4]);
}

/// Sets alone, with and without a queue, of sets of all kinds.
TEST_P(RoundedSetsTest, SetsAreThoseOfDownsample) {
  const Queue queue = make_queue(machine());
  for (minuet_queue* const own : {static_cast<minuet_queue*>(nullptr), queue.get()}) {
    for (int ndim = 1; ndim <= 4; ++ndim) {
      SCOPED_TRACE("axes " + std::to_string(ndim) + (own ? ", queue" : ""));
      minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
      options.ndim = ndim;
      options.queue = own;
      const std::vector<int32_t> points = points_in(5, ndim, 200, -11, {23, 23, 23, 23});
      const Coordinates set = set_of(points, options);
      Axes first{1, 1, 1, 1}, second = first;
      std::copy_n(Axes{2, 3, 1, 2}.begin(), ndim, first.begin());
      std::copy_n(Axes{3, 2, 2, 2}.begin(), ndim, second.begin());
      int64_t before = launches();
      const Coordinates coarse = reach_of(set.get(), first, ndim);
      const int64_t taken = launches() - before;
      const Coordinates twice = reach_of(coarse.get(), second, ndim);
      const Coordinates plain = downsample(set.get(), first);
      const Coordinates of_plain = reach_of(plain.get(), second, ndim);  // of one that may be deferred
      const Coordinates of_wide = reach_of(set.get(), first, ndim, {99, 99, 99, 99});
      const std::vector<int32_t> expected = oracle::downsample(ndim, points, first);
      const std::vector<int32_t> rows = expect_coordinates(machine(), coarse.get(), ndim, expected);
      EXPECT_EQ(rows, coordinates_of(machine(), plain.get(), ndim));
      EXPECT_EQ(coordinates_of(machine(), twice.get(), ndim),
                coordinates_of(machine(), of_plain.get(), ndim));
      EXPECT_EQ(coordinates_of(machine(), twice.get(), ndim),
                coordinates_of(machine(), downsample(coarse.get(), second).get(), ndim));
      // Cells that are negative lie outside of a shape.
      EXPECT_LT(minuet_coordinates_count(of_wide.get()), minuet_coordinates_count(coarse.get()));
      if (taken > 0) {
        before = launches();
        reach_of(set.get(), first, ndim, {99, 99, 99, 99});
        EXPECT_LT(taken, launches() - before);
      }
    }
  }
}

/// A shape matters unless the bounds of the set, or of the set it was made of, are inside.
TEST_P(RoundedSetsTest, ShapesOfSets) {
  const std::vector<int32_t> points = points_in(6, 3, 300, 0, {15, 16, 16, 1});
  const Axes two{2, 2, 2, 1};
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  options.has_bounds = 1;
  options.greatest[0] = 2, options.greatest[1] = 14, options.greatest[2] = options.greatest[3] = 15;
  const Coordinates bounded = set_of(points, options), free = set_of(points);
  for (const Axes& shape : {Axes{8, 8, 8, 0}, Axes{7, 8, 8, 0}, Axes{8, 8, 7, 0}}) {
    const std::vector<int32_t> expected = expected_reach(3, points, {1, 1, 1, 1}, two, shape);
    const Coordinates one = reach_of(bounded.get(), two, 3, shape),
                      other = reach_of(free.get(), two, 3, shape);
    EXPECT_EQ(expect_coordinates(machine(), one.get(), 3, expected),
              coordinates_of(machine(), other.get(), 3));
    // The set that was made has bounds too.
    const Axes coarser{shape[0] / 2, shape[1] / 2, shape[2] / 2, 0};
    const std::vector<int32_t> again = expected_reach(3, expected, two, two, coarser);
    for (const Coordinates* const of : {&one, &other}) {
      expect_coordinates(machine(), reach_of(of->get(), two, 3, coarser).get(), 3, again);
    }
  }
}

/// A set that the caller gives with a tensor stride may have coordinates that are no multiples of it. They
/// reach no cell, although they lie in one.
TEST_P(RoundedSetsTest, CoordinatesThatAreNoMultiplesOfTheTensorStride) {
  const std::vector<int32_t> points{0, 0, 0, 0, /**/ 0, 5, 4, 2, /**/ 0, 6, 6, -6};
  for (int32_t size = 1; size <= 2; ++size) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    std::fill_n(options.tensor_stride, 3, 2);
    const Coordinates set = set_of(points, options);
    const Axes stride{size, size, size, 1};
    expect_coordinates(machine(), reach_of(set.get(), stride, 3).get(), 3,
                       expected_reach(3, points, {2, 2, 2, 1}, stride));
  }
}

/// Maps between a set and one that was made of it, in both directions.
TEST_P(RoundedSetsTest, MapsBetweenTheSets) {
  const Queue queue = make_queue(machine());
  for (minuet_queue* const own : {static_cast<minuet_queue*>(nullptr), queue.get()}) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.queue = own;
    const std::vector<int32_t> points = points_in(8, 3, 300, -9, {19, 19, 19, 1});
    const Coordinates fine = set_of(points, options), coarse = reach_of(fine.get(), {2, 2, 2, 1}, 3);
    const std::vector<int32_t> coarse_points = coordinates_of(machine(), coarse.get(), 3);
    oracle::Geometry geometry{3, {2, 2, 2, 1}};
    geometry.is_dense = true;
    EXPECT_TRUE(pairs_of(map_of(fine.get(), coarse.get(), geometry).get()) ==
                oracle::find_pairs(geometry, points, coarse_points));
    geometry.transposed = true;
    EXPECT_TRUE(pairs_of(map_of(coarse.get(), fine.get(), geometry).get()) ==
                oracle::find_pairs(geometry, coarse_points, points));
  }
}

/// A coarser set may have coordinates below the bounds of the finer one, and reach others from there.
TEST_P(RoundedSetsTest, AnotherOpFollowsASetBelowTheBounds) {
  std::vector<int32_t> points;
  for (int32_t x = 1; x < 10; ++x) points.insert(points.end(), {0, x});
  const Queue queue = make_queue(machine());
  for (minuet_queue* const own : {static_cast<minuet_queue*>(nullptr), queue.get()}) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.ndim = 1;
    options.queue = own;
    options.has_bounds = 1;
    options.least[1] = 1, options.greatest[1] = 9;
    const Coordinates set = set_of(points, options);
    const Axes two{2, 1, 1, 1};
    const Coordinates reached = reach_of(set.get(), two, 1), plain = downsample(set.get(), two);
    for (const Coordinates* const coarse : {&reached, &plain}) {
      minuet_reach_options next = MINUET_REACH_OPTIONS_INIT;
      next.kernel_size[0] = 3, next.stride[0] = 2;
      minuet_coordinates* made = nullptr;
      check(minuet_coordinates_reach(coarse->get(), &next, nullptr, &made));
      const Coordinates result(made, {minuet_coordinates_destroy});
      expect_coordinates(machine(), made, 1, {0, -4, 0, 0, 0, 4, 0, 8});
    }
  }
}

/// A coordinate that would leave 32 bits is refused, with either rule.
TEST_P(RoundedSetsTest, CoordinatesThatLeave32Bits) {
  const Coordinates set = set_of({0, INT32_MIN, 0, 0});
  minuet_reach_options options = MINUET_REACH_OPTIONS_INIT;
  options.kernel_size[0] = options.stride[0] = 3;
  minuet_coordinates* made = nullptr;
  EXPECT_EQ(minuet_coordinates_reach(set.get(), &options, nullptr, &made), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(), HasSubstr("32 bits"));
  options.kernel_size[0] = options.stride[0] = 2;
  check(minuet_coordinates_reach(set.get(), &options, nullptr, &made));
  const Coordinates even(made, {minuet_coordinates_destroy});
  EXPECT_EQ(coordinates_of(machine(), made, 3), (std::vector<int32_t>{0, INT32_MIN, 0, 0}));
}

MINUET_INSTANTIATE_SETS_TEST(RoundedSetsTest);

}  // namespace
}  // namespace minuet::abi
