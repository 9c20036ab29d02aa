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

/// Submanifold, between two sets of other bounds, onto a coarser one and back.
TEST_P(SetsTest, MapsThatReachFar) {
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
    const std::vector<int32_t> coarse_points =
        expect_coordinates(machine(), coarse.get(), 3, oracle::downsample(3, points, two));
    expect_map(set.get(), coarse.get(), geometry, points, coarse_points);
    geometry.transposed = true;
    expect_map(coarse.get(), set.get(), geometry, coarse_points, points);
    geometry.transposed = false;
    geometry.fine_tensor_stride = two;  // offsets are in its steps
    expect_map(coarse.get(), coarse.get(), geometry, coarse_points, coarse_points);
  }
}

/// Keys have the fields that declared bounds need. Two sets of the same coordinates may have other fields.
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

/// Sets of other places and batches one after the other, one of them outside the range that keys have by
/// default.
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
    const std::vector<int32_t> coarse_points =
        expect_coordinates(machine(), coarse.get(), 3, oracle::downsample(3, points, two));
    expect_map(set.get(), set.get(), {3, {3, 3, 3, 1}}, points, points);
    expect_map(set.get(), coarse.get(), {3, {2, 2, 2, 1}}, points, coarse_points);
  }
}

/// A map may reach farther than the whole cloud, and than the bounds of the set.
TEST_P(SetsTest, NoBoundsLimitAMap) {
  const std::vector<int32_t> points = lattice(84, 3, 1000, 1, {1, 1, 1, 1}, 0, 16);
  minuet_coordinates_options tight = MINUET_COORDINATES_OPTIONS_INIT;
  tight.has_bounds = 1;
  std::fill_n(tight.greatest, 4, 15);
  for (const minuet_coordinates_options& options : {MINUET_COORDINATES_OPTIONS_INIT, tight}) {
    const Coordinates set = set_of(points, options);
    for (const int32_t dilation : {1, 5, 15, 5000}) {
      expect_map(set.get(), set.get(), {3, {5, 3, 5, 1}, {dilation, dilation, dilation, 1}}, points, points);
    }
  }
}

/// A key of a superblock has 64 bits, and fields of axes count from 1. With three axes of 2^21 - 1
/// superblocks one bit is left for the batch; with four axes of 2^15 - 1 and 2^17 - 1 superblocks, none.
constexpr int32_t kLastOf3 = 16 * ((1 << 21) - 1) - 1;
constexpr int32_t kLastOf4First = 16 * ((1 << 15) - 1) - 1, kLastOf4Last = 4 * ((1 << 17) - 1) - 1;

TEST_P(SetsTest, KeysOfSixtyFourBits) {
  const auto status = [&](int32_t batch, int32_t first_axes, int32_t last_axes, bool declares) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.ndim = 4;
    options.has_bounds = declares;
    const std::vector<int32_t> last{batch, first_axes, first_axes, last_axes, last_axes};
    std::copy(last.begin(), last.end(), options.greatest);
    std::vector<int32_t> points(5);
    points.insert(points.end(), last.begin(), last.end());
    Coordinates set(nullptr, {minuet_coordinates_destroy});
    return create(options, points, set);
  };
  for (const bool declares : {false, true}) {
    EXPECT_EQ(status(0, kLastOf4First, kLastOf4Last, declares), MINUET_OK) << last_error();
    for (const int field : {0, 1, 2}) {
      const auto more = [&](int of) { return field == of ? 1 : 0; };
      EXPECT_EQ(status(more(0), kLastOf4First + more(1), kLastOf4Last + more(2), declares),
                MINUET_OUT_OF_RANGE);
      EXPECT_THAT(last_error(), HasSubstr("64-bit key"));
    }
  }
}

/// The keys of these corners are all bits that a key has. Offsets that leave the keys' range find nothing,
/// although the field of the next axis would change.
TEST_P(SetsTest, OffsetsFromTheCornersOfAllKeys) {
  const struct {
    int ndim;
    Axes last, superblock;
  } ranges[] = {{3, {kLastOf3, kLastOf3, kLastOf3, 0}, {16, 16, 16, 1}},
                {4, {kLastOf4First, kLastOf4First, kLastOf4Last, kLastOf4Last}, {16, 16, 4, 4}}};
  for (const auto& [ndim, last, superblock] : ranges) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.ndim = ndim;
    std::vector<int32_t> points;
    for (int32_t corner = 0; corner < 1 << ndim; ++corner) {
      for (int32_t inward = 0; inward < 2; ++inward) {
        points.push_back(ndim == 3 ? corner % 2 : 0);
        for (int a = 0; a < ndim; ++a) {
          points.push_back(corner >> a & 1 ? last[a] - inward * superblock[a] : inward * superblock[a]);
        }
      }
    }
    const Coordinates set = set_of(points, options);
    expect_map(set.get(), set.get(), {ndim, {3, 3, 3, ndim == 4 ? 3 : 1}, superblock}, points, points);
    expect_map(set.get(), set.get(), {ndim, {3, 3, 3, ndim == 4 ? 3 : 1}, {1, 1, 1, 1}}, points, points);
  }
}

/// Coordinates of a derived set are rounded down, so that they begin before the declared bounds.
TEST_P(SetsTest, ASetWithinBoundsIsDerivedTwice) {
  const std::vector<int32_t> points{0, -5, -7, -1, 0, 4, 4, 4};
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  options.has_bounds = 1;
  for (int f = 1; f <= 3; ++f) options.least[f] = points[static_cast<size_t>(f)], options.greatest[f] = 4;
  const Coordinates fine = set_of(points, options), middle = downsample(fine.get(), {2, 2, 2, 1}),
                    coarse = downsample(middle.get(), {2, 2, 2, 1});
  expect_coordinates(machine(), middle.get(), 3, {0, -6, -8, -2, 0, 4, 4, 4});
  expect_coordinates(machine(), coarse.get(), 3, {0, -8, -8, -4, 0, 4, 4, 4});
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

/// Made one of the other before any is counted, also with strides that are no powers of two.
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
  expect_waits(0);  // all of them are in one index, and were counted together
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
      expect_coordinates(machine(), downsample(in.set.get(), stride).get(), 3,
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
