// Coordinate sets and kernel maps through the C ABI: how far a map reaches, what a set may span, declared
// bounds, threads; on every device.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "tests/support/abi.h"
#include "tests/support/by_hand.h"
#include "tests/support/random.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {
namespace {

using oracle::Axes;
using testing::HasSubstr;

/// `count` different points: batch below `batches`, axis a a multiple of step[a] in [least, least + extent).
std::vector<int32_t> lattice(uint64_t seed, int ndim, int64_t count, int32_t batches, const Axes& step,
                             int32_t least, int32_t extent) {
  Random random(seed);
  std::map<std::vector<int32_t>, bool> seen;
  std::vector<int32_t> coordinates;
  while (static_cast<int64_t>(seen.size()) < count) {
    std::vector<int32_t> point{static_cast<int32_t>(random.below(static_cast<uint64_t>(batches)))};
    for (int a = 0; a < ndim; ++a) {
      point.push_back(least + step[a] * static_cast<int32_t>(random.below(static_cast<uint64_t>(extent))));
    }
    if (seen.emplace(point, true).second) coordinates.insert(coordinates.end(), point.begin(), point.end());
  }
  return coordinates;
}

class SetsTest : public SetsOnDevice {
 protected:
  void expect_map(minuet_coordinates* in, minuet_coordinates* out, const oracle::Geometry& geometry,
                  const std::vector<int32_t>& in_points, const std::vector<int32_t>& out_points) {
    const std::vector<oracle::Pair> pairs = pairs_of(map_of(in, out, geometry).get());
    const std::vector<oracle::Pair> expected = oracle::find_pairs(geometry, in_points, out_points);
    EXPECT_TRUE(pairs == expected) << pairs.size() << " pairs where " << expected.size() << " are";
    EXPECT_GT(expected.size(), 0u) << "a map of nothing shows nothing";
  }
};

/// Submanifold, between two sets of other bounds, onto a coarser one and back; reaches of 128 cells just fit
/// what a set leaves free, the others do not.
TEST_P(SetsTest, MapsThatReachPast128Cells) {
  const struct { int32_t kernel, dilation; } shapes[] = {{5, 70}, {3, 128}, {3, 129}, {2, 200}, {3, 1000}};
  for (const auto& [kernel, dilation] : shapes) {
    SCOPED_TRACE("kernel " + std::to_string(kernel) + ", dilation " + std::to_string(dilation));
    const Axes step{dilation, dilation, dilation, 1};
    // Both full of pairs and so dense that an offset that runs into the next field meets another point there.
    std::vector<int32_t> points = lattice(81, 3, 150, 2, step, -2 * dilation - 1, 6);
    const std::vector<int32_t> near = lattice(82, 3, 150, 2, {1, 1, 1, 1}, 20, 7);
    points.insert(points.end(), near.begin(), near.end());
    const std::vector<int32_t> others = lattice(83, 3, 200, 2, step, -3 * dilation - 1, 8);
    const Coordinates set = set_of(points), other = set_of(others);
    oracle::Geometry geometry{3, {kernel, kernel, kernel, 1}, {dilation, dilation, dilation, 1}};
    expect_map(set.get(), set.get(), geometry, points, points);
    expect_map(set.get(), other.get(), geometry, points, others);

    const Axes two{2, 2, 2, 1};
    const Coordinates coarse = downsample(set.get(), two);
    const std::vector<int32_t> coarse_points = oracle::downsample(3, points, two);
    ASSERT_EQ(coordinates_of(machine(), coarse.get(), 3), coarse_points);
    expect_map(set.get(), coarse.get(), geometry, points, coarse_points);
    geometry.transposed = true;
    expect_map(coarse.get(), set.get(), geometry, coarse_points, points);
    geometry.transposed = false;
    geometry.fine_tensor_stride = two;  // offsets are in its steps
    expect_map(coarse.get(), coarse.get(), geometry, coarse_points, coarse_points);
  }
}

/// Keys are as wide as those of the sets before, unless bounds are declared: two sets of the same coordinates
/// may have the same layout of fields in keys of 64 bits and of 32.
TEST_P(SetsTest, MapsBetweenKeysOfTwoWidths) {
  const std::vector<int32_t> points = lattice(86, 3, 200, 1, {1, 1, 1, 1}, -9, 12);
  minuet_coordinates_options declared = MINUET_COORDINATES_OPTIONS_INIT;
  declared.has_bounds = 1;
  for (size_t field = 0; field < 4; ++field) {
    declared.least[field] = declared.greatest[field] = points[field];
    for (size_t i = field; i < points.size(); i += 4) {
      declared.least[field] = std::min(declared.least[field], points[i]);
      declared.greatest[field] = std::max(declared.greatest[field], points[i]);
    }
  }
  set_of({0, -(1 << 18), -(1 << 18), -(1 << 18), 0, 1 << 18, 1 << 18, 1 << 18});  // the next keys are wide
  const Coordinates wide = set_of(points), narrow = set_of(points, declared);
  const oracle::Geometry geometry{3, {3, 3, 3, 1}};
  expect_map(wide.get(), narrow.get(), geometry, points, points);
  expect_map(narrow.get(), wide.get(), geometry, points, points);
}

/// A set without coordinates has no bounds, and a map to a set that lies far away needs none of it.
TEST_P(SetsTest, MapsBetweenAnEmptySetAndOneFarAway) {
  const Coordinates empty = set_of({});
  for (const int32_t far : {-(1 << 30), 1 << 30}) {
    const Coordinates away = set_of({7, far, far, far});
    for (const int32_t dilation : {1, 1000}) {
      const oracle::Geometry geometry{3, {3, 3, 3, 1}, {dilation, dilation, dilation, 1}};
      EXPECT_EQ(pair_count(map_of(empty.get(), away.get(), geometry).get()), 0);
      EXPECT_EQ(pair_count(map_of(away.get(), empty.get(), geometry).get()), 0);
      EXPECT_EQ(pair_count(map_of(empty.get(), empty.get(), geometry).get()), 0);
      EXPECT_EQ(pair_count(map_of(away.get(), away.get(), geometry).get()), 1);
    }
  }
}

/// A set is sorted by the bounds of the last one where its own are inside: batches, ends and axes that are
/// not.
TEST_P(SetsTest, CloudsThatLeaveTheLastOnesBounds) {
  const struct {
    int32_t least, extent, batches;
  } clouds[] = {{0, 20, 1},       {2, 10, 1}, {2, 10, 3},  {-900, 30, 3},   {-20, 70, 2},
                {1 << 18, 20, 1}, {0, 20, 1}, {-30, 9, 1}, {1 << 22, 5, 9}, {0, 30, 1}};
  uint64_t seed = 86;
  for (const auto& [least, extent, batches] : clouds) {
    SCOPED_TRACE("from " + std::to_string(least) + ", " + std::to_string(batches) + " batches");
    const std::vector<int32_t> points = lattice(++seed, 3, 300, batches, {1, 1, 1, 1}, least, extent);
    const Coordinates set = set_of(points);
    ASSERT_EQ(coordinates_of(machine(), set.get(), 3), points);
    const Axes two{2, 2, 2, 1};
    const Coordinates coarse = downsample(set.get(), two);
    const std::vector<int32_t> coarse_points = oracle::downsample(3, points, two);
    ASSERT_EQ(coordinates_of(machine(), coarse.get(), 3), coarse_points);
    expect_map(set.get(), set.get(), {3, {3, 3, 3, 1}}, points, points);
    expect_map(set.get(), coarse.get(), {3, {2, 2, 2, 1}}, points, coarse_points);
  }
}

/// What a set leaves free at its ends is an option, and never a bound on maps.
TEST_P(SetsTest, MaxOffsetLimitsNoMap) {
  const std::vector<int32_t> points = lattice(84, 3, 1000, 1, {1, 1, 1, 1}, 0, 16);
  for (const int32_t max_offset : {0, 1, 500}) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    for (int32_t& axis : options.max_offset) axis = max_offset;
    const Coordinates set = set_of(points, options);
    for (const int32_t dilation : {1, 5, 15}) {
      expect_map(set.get(), set.get(), {3, {5, 3, 5, 1}, {dilation, dilation, dilation, 1}}, points, points);
    }
  }
  minuet_coordinates_options negative = MINUET_COORDINATES_OPTIONS_INIT;
  negative.max_offset[1] = -1;
  Coordinates none(nullptr, {minuet_coordinates_destroy});
  EXPECT_EQ(create(negative, points, none), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("max_offset of axis 1"));
}

/// Keys have 64 bits: four axes of 65,280 cells and the 128 free ones at both ends just fit, in any of the
/// ways to ask for 128, and a cell more does not.
TEST_P(SetsTest, TheDefaultOfMaxOffsetIs128Cells) {
  const auto status = [&](int32_t farthest, int32_t max_offset) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.ndim = 4;
    for (int32_t& axis : options.max_offset) axis = max_offset;
    Coordinates set(nullptr, {minuet_coordinates_destroy});
    return create(options, {0, 0, 0, 0, 0, 0, farthest, farthest, farthest, farthest}, set);
  };
  EXPECT_EQ(status(65279, 128), MINUET_OK) << last_error();
  EXPECT_EQ(status(65279, 129), MINUET_OUT_OF_RANGE);
  EXPECT_EQ(status(65280, 127), MINUET_OK) << last_error();
  EXPECT_EQ(status(65280, 128), MINUET_OUT_OF_RANGE);
  EXPECT_EQ(status(65279, 0), MINUET_OK) << last_error();
  EXPECT_EQ(status(65280, 0), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(), HasSubstr("64-bit key"));
}

/// A query in the last corner with the farthest offset has a key of ones only, which is what the search fills
/// up its last block with: keys of 32 bits, and of 64.
TEST_P(SetsTest, AKeyOfAllOnesIsFoundNowhere) {
  for (const int ndim : {2, 4}) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.ndim = ndim;
    std::vector<int32_t> points = lattice(85, ndim, 40, 1, {128, 128, 128, 128}, 65279 - 7 * 128, 7);
    for (const int32_t corner : {0, 65279}) {
      points.push_back(0);
      points.insert(points.end(), static_cast<size_t>(ndim), corner);
    }
    const Coordinates set = set_of(points, options);
    expect_map(set.get(), set.get(), {ndim, {3, 3, 3, 3}, {128, 128, 128, 128}}, points, points);
  }
}

TEST_P(SetsTest, DeclaredBounds) {
  const std::vector<int32_t> points = lattice(86, 3, 400, 3, {1, 1, 1, 1}, -20, 40);
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  const Coordinates found = set_of(points, options);
  options.has_bounds = 1;
  for (int f = 0; f <= 3; ++f) {
    options.least[f] = f == 0 ? 0 : -20;
    options.greatest[f] = f == 0 ? 2 : 19;
  }
  const oracle::Geometry geometry{3, {3, 3, 3, 1}};
  // As tight as can be, and then wide: the set is the same.
  const Coordinates tight = set_of(points, options);
  EXPECT_EQ(coordinates_of(machine(), tight.get(), 3), points);
  expect_map(tight.get(), tight.get(), geometry, points, points);
  minuet_coordinates_options wide = options;
  for (int f = 0; f <= 3; ++f) wide.greatest[f] += 1000, wide.least[f] -= f == 0 ? 0 : 3000;
  const Coordinates roomy = set_of(points, wide);
  EXPECT_EQ(coordinates_of(machine(), roomy.get(), 3), points);
  expect_map(roomy.get(), roomy.get(), geometry, points, points);
  expect_map(roomy.get(), found.get(), geometry, points, points);  // two layouts

  for (int f = 0; f <= 3; ++f) {
    for (const bool above : {false, true}) {
      if (f == 0 && !above) continue;  // a negative batch index is another error
      std::vector<int32_t> one_out = points;
      one_out[4 * 77 + f] = above ? options.greatest[f] + 1 : options.least[f] - 1;
      Coordinates set(nullptr, {minuet_coordinates_destroy});
      EXPECT_EQ(create(options, one_out, set), MINUET_OUT_OF_RANGE) << "field " << f << ", " << above;
      EXPECT_THAT(last_error(), HasSubstr("declared bounds"));
    }
    minuet_coordinates_options empty = options;
    empty.least[f] = empty.greatest[f] + 1;
    Coordinates set(nullptr, {minuet_coordinates_destroy});
    EXPECT_EQ(create(empty, points, set), MINUET_INVALID_ARGUMENT) << f;
    EXPECT_THAT(last_error(), HasSubstr("least[" + std::to_string(f) + "] is "));
  }
  options.has_bounds = 0;  // then what stands there is of no matter
  std::fill_n(options.least, 4, 5);
  std::fill_n(options.greatest, 4, 4);
  EXPECT_EQ(coordinates_of(machine(), set_of(points, options).get(), 3), points);
}

/// Made one of the other before any is counted, also under another layout of keys (6 does not divide 64).
TEST_P(SetsTest, CoarserSetsAreCountedWhereSomebodyAsks) {
  const std::optional<software_cuda::Control> control = software_cuda::Control::find();
  const Queue queue = make_queue(machine());
  const std::vector<int32_t> points = lattice(91, 3, 200, 2, {1, 1, 1, 1}, -9, 18);
  minuet_coordinates_options queued = MINUET_COORDINATES_OPTIONS_INIT;
  queued.queue = queue.get();
  const std::vector<Axes> strides = {{2, 2, 2, 1}, {3, 3, 3, 1}, {1, 2, 2, 1}, {2, 2, 2, 1}};
  const auto chain = [&](const minuet_coordinates_options& options) {
    std::vector<Coordinates> sets;
    sets.push_back(set_of(points, options));
    for (const Axes& stride : strides) sets.push_back(downsample(sets.back().get(), stride));
    return sets;
  };
  const std::vector<Coordinates> expected = chain(MINUET_COORDINATES_OPTIONS_INIT);
  chain(queued);  // none of which is ever counted
  const Coordinates finest = set_of(points, queued);
  if (control) control->reset();
  std::vector<Coordinates> sets;
  for (const Axes& stride : strides) {
    sets.push_back(downsample((sets.empty() ? finest : sets.back()).get(), stride));
  }
  const auto expect_waits = [&](int64_t waits) {
    if (control && !machine().is_cpu()) {
      EXPECT_EQ(control->waits(), waits);
    }
  };
  expect_waits(0);
  const int64_t rows = minuet_coordinates_rows(expected[3].get());
  std::thread other([&] { EXPECT_EQ(minuet_coordinates_rows(sets[2].get()), rows); });
  EXPECT_EQ(minuet_coordinates_count(sets[2].get()), rows);
  other.join();
  const Coordinates again = downsample(sets[2].get(), strides[3]);  // of one that is counted
  if (control) control->reset();
  EXPECT_EQ(minuet_coordinates_rows(sets[2].get()), rows);
  expect_waits(0);
  EXPECT_EQ(minuet_coordinates_rows(sets[0].get()), minuet_coordinates_rows(expected[1].get()));
  expect_waits(1);
  sets[0].reset();
  for (size_t i = 1; i < sets.size(); ++i) {
    EXPECT_EQ(coordinates_of(machine(), sets[i].get(), 3),
              coordinates_of(machine(), expected[i + 1].get(), 3))
        << i;
  }
  EXPECT_EQ(coordinates_of(machine(), again.get(), 3), coordinates_of(machine(), expected[4].get(), 3));
}

/// Sets and maps of one device in two threads, each with its own clouds, then each with the other's sets.
TEST_P(SetsTest, InTwoThreads) {
  struct Cloud {
    std::vector<int32_t> points;
    Coordinates set{nullptr, {minuet_coordinates_destroy}};
  };
  const int ndims[] = {3, 3, 2, 3};
  std::vector<Cloud> clouds(4);
  std::atomic<int> ready{0};
  const auto work = [&](size_t first) {
    for (size_t i = first; i < clouds.size(); i += 2) {
      const int ndim = ndims[i];
      clouds[i].points = lattice(90 + i, ndim, 200 + 150 * static_cast<int64_t>(i), 2, {1, 1, 1, 1}, -9, 24);
      minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
      options.ndim = ndim;
      clouds[i].set = set_of(clouds[i].points, options);
    }
    for (int repeat = 0; repeat < 4; ++repeat) {
      // At once: what is not told apart by a lock shows only while both are at it.
      ++ready;
      while (ready < 2 * (repeat + 1)) std::this_thread::yield();
      const Cloud& in = clouds[repeat % 2 == 0 ? 0 : 1];
      const Cloud& out = clouds[3];
      expect_map(in.set.get(), out.set.get(), {3, {3, 3, 3, 1}, {repeat + 1, 1, 1, 1}}, in.points,
                 out.points);
      expect_map(clouds[2].set.get(), clouds[2].set.get(), {2, {5, 3, 1, 1}}, clouds[2].points,
                 clouds[2].points);
      EXPECT_EQ(coordinates_of(machine(), out.set.get(), 3), out.points);
      const Axes stride{2, 3, 2, 1};
      EXPECT_EQ(coordinates_of(machine(), downsample(in.set.get(), stride).get(), 3),
                oracle::downsample(3, in.points, stride));
    }
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
}

MINUET_INSTANTIATE_SETS_TEST(SetsTest);

}  // namespace
}  // namespace minuet::abi
