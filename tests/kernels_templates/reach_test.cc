// Sets that are reached from others, as the outputs of a dense convolution are, or generated from others, and
// unions and intersections: by the definition, by the index of voxels in the shim, and by the kernel of the
// sorted method.
#include "tests/kernels_templates/voxel_index_runs.h"
// voxel_index_runs.h first: it brings the shim's names.
#include "kernels_templates/map/reach_keys.h"

namespace minuet {
namespace {

/// Returns what an op reaches from these points, by the definition.
std::set<Point> reached_from(const std::set<Point>& points, i32 ndim, const SetSpec& set,
                             const AxisArray& parent_stride) {
  std::set<Point> reached(points.begin(), points.end());
  for (i32 a = 0; a < ndim; ++a) {
    std::set<Point> next;
    for (const Point& from : reached) {
      const i32 size = set.reach ? set.reach->kernel_size[a] : set.tensor_stride[a];
      for (i32 k = 0; k < size; ++k) {
        Point to = from;
        if (set.reach && set.reach->is_generative) {
          to[a + 1] += (k * set.reach->dilation[a] - set.reach->padding[a]) * set.tensor_stride[a];
        } else {
          to[a + 1] +=
              set.reach ? (set.reach->padding[a] - k * set.reach->dilation[a]) * parent_stride[a] : -k;
        }
        const i32 cell = to[a + 1] / set.tensor_stride[a];
        if (cell * set.tensor_stride[a] != to[a + 1]) continue;
        if (set.shape[a] > 0 && (cell < 0 || cell >= set.shape[a])) continue;
        next.insert(to);
      }
    }
    reached = next;
  }
  return reached;
}

/// At most `count` points, each once.
std::vector<Point> some_points(Random& random, i64 count, i32 ndim, i32 extent) {
  const std::vector<Point> points = random_points(random, count, ndim, 2, extent, false);
  const std::set<Point> unique(points.begin(), points.end());
  return {unique.begin(), unique.end()};
}

/// Returns the coordinates of a set, given those of the sets before it.
std::set<Point> points_of_set(const std::vector<std::set<Point>>& before, i32 ndim,
                              const std::vector<SetSpec>& sets, std::size_t number) {
  const SetSpec& set = sets[number];
  if (set.is_intersection) {
    std::set<Point> both;
    for (const Point& point : before[set.parent]) {
      if (before[set.other_parent].count(point)) both.insert(point);
    }
    return both;
  }
  std::set<Point> points = reached_from(before[set.parent], ndim, set, sets[set.parent].tensor_stride);
  if (set.is_union()) {
    const std::set<Point>& others = before[set.other_parent];
    EXPECT_TRUE(
        std::includes(points.begin(), points.end(), before[set.parent].begin(), before[set.parent].end()));
    points.insert(others.begin(), others.end());
  }
  return points;
}

/// Draws a set that follows from number `parent`, whose tensor stride is `stride`.
SetSpec random_set(Random& random, i32 ndim, i32 parent, const AxisArray& stride) {
  SetSpec set;
  set.parent = parent;
  const bool is_reached = random.below(4) > 0, has_shape = random.below(3) == 0;
  if (is_reached) set.reach.emplace();
  const bool is_generative = is_reached && random.below(3) == 0;
  if (is_generative) set.reach->is_generative = true;
  for (i32 a = 0; a < ndim; ++a) {
    const i32 factor = static_cast<i32>(random.between(1, 3));
    set.tensor_stride[a] = !is_generative            ? stride[a] * factor
                           : stride[a] % factor == 0 ? stride[a] / factor
                                                     : stride[a];
    if (!is_reached) continue;
    set.reach->kernel_size[a] = static_cast<i32>(random.between(1, 4));
    set.reach->dilation[a] = static_cast<i32>(random.between(1, 3));
    set.reach->padding[a] = static_cast<i32>(random.between(0, 4));
    if (has_shape) set.shape[a] = static_cast<i32>(random.between(1, 12));
  }
  return set;
}

template <i32 Ndim>
void expect_levels(const std::vector<Point>& points, const std::vector<SetSpec>& sets, const Bounds& bounds,
                   int variant) {
  std::vector<std::set<Point>> expected{{points.begin(), points.end()}};
  for (std::size_t l = 1; l < sets.size(); ++l) {
    expected.push_back(points_of_set(expected, Ndim, sets, l));
  }
  std::vector<i64> capacities;
  for (const std::set<Point>& level : expected)
    capacities.push_back(std::max<i64>(static_cast<i64>(level.size()), 1));
  Index<Ndim> index(bounds, sets, capacities, variant);
  for (int repeat = 0; repeat < 2; ++repeat) {
    index.build(points);
    ASSERT_EQ(index.status, 0u);
    for (std::size_t l = 0; l < sets.size(); ++l) {
      SCOPED_TRACE(testing::Message() << "level " << l);
      const std::vector<Point> all(expected[l].begin(), expected[l].end());
      EXPECT_EQ(index.points_of(static_cast<i32>(l)), rows_of_level<Ndim>(all, sets[l].tensor_stride));
    }
  }
  // A map of each reached level, by the kernel that reaches it.
  for (std::size_t l = 1; l < sets.size(); ++l) {
    if (!sets[l].reach) continue;
    i32 fine = sets[l].parent, coarse = static_cast<i32>(l);
    if (sets[l].reach->is_generative) std::swap(fine, coarse);
    const KernelGeometry geometry = make_geometry(Ndim, sets[l].reach->kernel_size, sets[l].reach->dilation,
                                                  sets[fine].tensor_stride, sets[l].reach->padding);
    const std::vector<Point> sources = index.points_of(fine), queries = index.points_of(coarse);
    const auto maps = index.search({{fine, coarse, geometry}});
    EXPECT_EQ(maps.rows[0], plain_kernel_map(sources, queries, geometry));
  }
  // One row too few in a level that is reached, or made of two others.
  for (std::size_t l = 1; l < sets.size(); ++l) {
    if (!sets[l].is_reached_or_combined() || expected[l].size() < 2) continue;
    std::vector<i64> fewer = capacities;
    --fewer[l];
    Index<Ndim> full(bounds, sets, fewer, variant);
    full.build(points);
    EXPECT_EQ(full.status, kStatusPastCapacity);
  }
}

template <i32 Ndim>
void expect_random_levels(u64 seed) {
  Random random(seed);
  for (int trial = 0; trial < 12; ++trial) {
    SCOPED_TRACE(testing::Message() << "axes " << Ndim << ", seed " << seed << ", trial " << trial);
    const std::vector<Point> points =
        some_points(random, random.between(0, 40), Ndim, static_cast<i32>(random.between(2, 12)));
    std::vector<SetSpec> sets(1);
    for (i32 l = 1; l < 6; ++l) {
      const auto any = [&] { return static_cast<i32>(random.below(static_cast<u64>(l))); };
      const i32 parent = any(), other = any();
      if (l > 2 && random.below(2) == 0) {
        SetSpec both;
        both.parent = parent, both.other_parent = other;
        both.tensor_stride = common_stride(sets[parent].tensor_stride, sets[other].tensor_stride);
        both.is_intersection = random.below(2) == 0;
        const std::array<i64, kMaxDim> multiple =
            common_multiple(sets[parent].tensor_stride, sets[other].tensor_stride);
        for (i32 a = 0; a < Ndim && both.is_intersection; ++a)
          both.tensor_stride[a] = static_cast<i32>(multiple[a]);
        sets.push_back(both);
        continue;
      }
      sets.push_back(random_set(random, Ndim, parent, sets[parent].tensor_stride));
    }
    Bounds bounds = default_index_bounds(Ndim);
    for (i32 f = 1; f <= Ndim && trial % 2 == 0; ++f) bounds.least[f] = -40, bounds.greatest[f] = 40;
    for (i32 f = 1; f <= Ndim && trial % 2 == 1; ++f) bounds.least[f] /= 4, bounds.greatest[f] /= 4;
    expect_levels<Ndim>(points, sets, bounds, trial % 3);
  }
}

TEST(Reach, LevelsAreThoseOfTheDefinition) {
  for (u64 seed = 1; seed < 4; ++seed) {
    expect_random_levels<1>(seed);
    expect_random_levels<2>(seed);
    expect_random_levels<3>(seed);
    expect_random_levels<4>(seed);
  }
}

/// The levels of a detection backbone.
TEST(Reach, AChainOfStridedLevels) {
  Random random(7);
  std::vector<Point> points;
  for (const Point& point : some_points(random, 300, 3, 30)) {
    if (std::min({point[1], point[2], point[3]}) >= 0) points.push_back(point);
  }
  std::vector<SetSpec> sets(1);
  // The cloud's shape is 31 cells on each axis.
  const AxisArray shapes[] = {{16, 16, 16, 0}, {8, 8, 8, 0}, {4, 4, 3, 0}};
  for (i32 l = 1; l < 4; ++l) {
    SetSpec set;
    set.parent = l - 1;
    set.reach = ReachSpec{{3, 3, 3, 1}, {1, 1, 1, 1}, {1, 1, l == 3 ? 0 : 1, 0}};
    for (i32 a = 0; a < 3; ++a) set.tensor_stride[a] = 1 << l;
    set.shape = shapes[l - 1];
    sets.push_back(set);
  }
  Bounds bounds = default_index_bounds(3);
  for (i32 f = 1; f < 4; ++f) bounds.least[f] = 0, bounds.greatest[f] = 30;
  expect_levels<3>(points, sets, bounds, 1);
}

TEST(Reach, KeysAreThoseOfTheDefinition) {
  Random random(3);
  for (int trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE(trial);
    const std::vector<Point> points = some_points(random, random.between(0, 60), 3, 9);
    std::vector<SetSpec> sets(1);
    while (!sets.back().reach) {
      sets.resize(1);
      sets.push_back(random_set(random, 3, 0, sets[0].tensor_stride));
    }
    const i32 least[kMaxFields] = {0, -10, -10, -10}, greatest[kMaxFields] = {1, 10, 10, 10};
    i64 guard[kMaxDim], period[kMaxDim] = {1, 1, 1, 1};
    for (i32 a = 0; a < 3; ++a) guard[a] = reach_margin(a, sets), period[a] = sets[1].tensor_stride[a];
    const CloudLayout layout = make_bounded_layout(3, least, greatest, guard, period);
    const LevelSource source = sources_of(3, sets, 1).front();
    const std::vector<u64> keys = keys_of<u64>(points, layout);
    std::vector<u64> reached = poisoned<u64>(keys.size() * static_cast<std::size_t>(source.cells) + 1);
    const i32 count = static_cast<i32>(keys.size());
    u32 reached_count = 0;
    shim::launch(&reach_keys<ReachKeysSpec{KeyType::U64, 3, kThreads}>,
                 ReachKeysParams{keys.data(), &count, &layout, source, nullptr, nullptr, reached.data(),
                                 &reached_count},
                 shim::small_grid(trial % 3, kThreads));
    EXPECT_EQ(reached.back(), poison<u64>());
    std::set<Point> found;
    for (u32 i = 0; i < reached_count; ++i) {
      Point point{};
      unpack_key<u64>(layout.keys, reached[i], point.data());
      found.insert(point);
    }
    EXPECT_EQ(found, reached_from({points.begin(), points.end()}, 3, sets[1], sets[0].tensor_stride));

    // Only those that another set has too.
    std::vector<Point> others = some_points(random, random.between(0, 60), 3, 9), kept;
    std::sort(others.begin(), others.end());
    for (const Point& point : others) {
      if (found.count(point)) kept.push_back(point);
    }
    const std::vector<u64> other_keys = keys_of<u64>(others, layout);
    const i32 other_count = static_cast<i32>(other_keys.size());
    reached_count = 0;
    shim::launch(&reach_keys<ReachKeysSpec{KeyType::U64, 3, kThreads}>,
                 ReachKeysParams{keys.data(), &count, &layout, source, other_keys.data(), &other_count,
                                 reached.data(), &reached_count},
                 shim::small_grid(trial % 3, kThreads));
    std::set<u64> kept_keys(reached.begin(), reached.begin() + reached_count);
    const std::vector<u64> expected_keys = keys_of<u64>(kept, layout);
    EXPECT_EQ(kept_keys, std::set<u64>(expected_keys.begin(), expected_keys.end()));
  }
}

}  // namespace
}  // namespace minuet
