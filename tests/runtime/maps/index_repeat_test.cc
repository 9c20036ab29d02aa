// The rows and pairs that an index of voxels (kernels_templates/shared/voxel_index.h) makes of one cloud,
// again and again: with the rows shuffled, with four times the slots, with other bounds and after larger
// clouds; through the C ABI, on every device.
#include <climits>
#include <memory>
#include <string>

#include "tests/runtime/maps/index_levels.h"
#include "tests/runtime/maps/index_network_fixture.h"

namespace minuet::abi {
namespace {

/// A hundred times on a GPU, because what depends on which thread comes first shows rarely.
int repeats_on(const Machine& machine) {
  if (machine.is_cpu() || machine.is_software()) return long_tests_wanted() ? 100 : 1;
  return 100;
}
/// More than the tests' other clouds have, so that the table has more slots.
int64_t huge_points(const Machine& machine) {
  if (takes_few_clouds(machine)) return 1'600;
  return machine.is_cpu() ? 4'000 : 100'000;
}

/// Where a test makes few clouds only, these are the one with superblocks of equal hashes and the random one.
std::vector<NamedCloud> clouds_for(const Machine& machine, int ndim) {
  // The smaller range leaves bits of the keys for bounds that are further out.
  std::vector<NamedCloud> clouds = make_clouds(ndim, /*sorts=*/true);
  if (takes_few_clouds(machine)) clouds.erase(clouds.begin(), clouds.end() - 2);
  return clouds;
}
/// A level with room for so many rows has the least number of slots. With four times the room it has four
/// times the slots.
constexpr int64_t kRowsOfLeastSlots = 1'500;
constexpr int64_t kSlotsOfFewRows = kSlotTile;

/// Bounds that hold a cloud, each of them up to 2,000 further out than it must be.
void set_bounds(const Points& points, int ndim, uint64_t seed, int32_t* least, int32_t* greatest) {
  Random random(seed);
  for (int f = 0; f <= ndim; ++f) {
    least[f] = INT_MAX, greatest[f] = INT_MIN;
    for (size_t i = static_cast<size_t>(f); i < points.size(); i += static_cast<size_t>(1 + ndim)) {
      least[f] = std::min(least[f], points[i]), greatest[f] = std::max(greatest[f], points[i]);
    }
    if (f > 0) least[f] -= static_cast<int32_t>(random.below(2000));
    greatest[f] += static_cast<int32_t>(random.below(2000));
  }
}

class IndexRepeatTest : public LevelsTest {
 protected:
  struct Content {
    std::vector<Points> rows;                     // of each set that is made of the caller's
    std::vector<std::vector<oracle::Pair>> maps;  // with the caller's rows in ascending order
  };

  Content content_of(const Points& points, const minuet_coordinates_options& options) {
    const int ndim = options.ndim;
    std::vector<Level> levels = make_sets(machine(), points, options);
    Content content;
    for (size_t l = 1; l < levels.size(); ++l)
      content.rows.push_back(coordinates_of(machine(), levels[l].set.get(), ndim));
    const std::vector<int32_t> first = first_rows(points, ndim);
    std::vector<int32_t> ranks(points.size() / static_cast<size_t>(1 + ndim), -1);
    for (size_t i = 0; i < first.size(); ++i) ranks[static_cast<size_t>(first[i])] = static_cast<int32_t>(i);
    const auto add_map = [&](size_t in, size_t out, const oracle::Geometry& geometry) {
      std::vector<oracle::Pair> pairs =
          pairs_of(map_of(levels[in].set.get(), levels[out].set.get(), geometry).get());
      for (oracle::Pair& pair : pairs) {
        if (in == 0) pair.in = ranks[static_cast<size_t>(pair.in)];
        if (out == 0) pair.out = ranks[static_cast<size_t>(pair.out)];
      }
      oracle::sort(pairs);
      content.maps.push_back(std::move(pairs));
    };
    for (size_t l = 0; l < levels.size(); ++l) {
      add_map(l, l, cube_of(ndim, 3, 1, levels[l].stride));
      if (l == 0) continue;
      const size_t fine = static_cast<size_t>(kCoarser[l - 1].of);
      add_map(fine, l, cube_of(ndim, 2, 1, levels[fine].stride));
      add_map(l, fine, cube_of(ndim, 3, 1, levels[fine].stride, /*transposed=*/true));
    }
    return content;
  }
  /// Makes the sets in several ways, whose content has to be that of the cloud as it is.
  void expect_repeats(int ndim, const Points& points, int repeats) {
    const Queue queue = make_queue(machine());
    minuet_coordinates_options options = options_of(ndim);
    const Content expected = content_of(points, options);
    const Points huge = make_large(ndim, huge_points(machine()));
    const auto expect_same = [&](const Points& other, const minuet_coordinates_options& by,
                                 const char* what) {
      const Content content = content_of(other, by);
      ASSERT_TRUE(content.rows == expected.rows) << what << ": rows";
      ASSERT_TRUE(content.maps == expected.maps) << what << ": pairs";
    };
    for (int repeat = 0; repeat < repeats; ++repeat) {
      SCOPED_TRACE("repeat " + std::to_string(repeat));
      const uint64_t seed = 80 + static_cast<uint64_t>(repeat);
      const Points others = shuffled(points, ndim, seed);
      expect_same(others, options, "shuffled");
      minuet_coordinates_options keeping = options;
      keeping.keep_first_duplicate = 1;
      const int64_t count = static_cast<int64_t>(points.size()) / (1 + ndim);
      const auto copies =
          static_cast<int>(std::max<int64_t>(4, (machine().is_cpu() ? 1 : 4) * kRowsOfLeastSlots / count));
      expect_same(repeated(points, ndim, copies, seed), keeping, "four times the capacity");
      minuet_coordinates_options bounded = options;
      bounded.has_bounds = 1;
      set_bounds(points, ndim, seed, bounded.least, bounded.greatest);
      expect_same(others, bounded, "other bounds");
      const Coordinates before = make_set(machine(), ndim, huge, {1, 1, 1, 1}, options_of(ndim, queue.get()));
      EXPECT_GT(minuet_coordinates_count(before.get()), 0);
      expect_same(others, options_of(ndim, queue.get()), "after a huge cloud");
    }
  }
};

TEST_P(IndexRepeatTest, RowsAndPairsOfSets) {
  for (int ndim = 1; ndim <= 4; ++ndim) {
    if (takes_few_clouds(machine()) && ndim != 3) continue;
    for (const auto& [name, points] : clouds_for(machine(), ndim)) {
      SCOPED_TRACE(std::to_string(ndim) + " axes, " + name);
      expect_repeats(ndim, points, repeats_on(machine()));
    }
  }
}

MINUET_INSTANTIATE_SETS_TEST(IndexRepeatTest);

class IndexRepeatNetworkTest : public IndexedNetworks {
 protected:
  struct Way {
    const char* what;
    Execution execution;
    std::unique_ptr<Room> room;
  };

  /// Runs the cloud with its rows shuffled, and expects the output that it has as it is.
  void expect_run(Way& way, const Points& points, uint64_t seed, const NetworkRun& expected) {
    SCOPED_TRACE(way.what);
    const int64_t count = static_cast<int64_t>(points.size()) / 4;
    const std::vector<int32_t> rows = shuffled_rows(count, seed);
    way.room->fill(machine(), take_rows(points, rows), take_rows(features_of(count), rows));
    enqueue(way.execution, *way.room);
    expect_output(way.execution, *way.room, 0, expected);
  }
  void expect_repeats(minuet_plan* plan, const Points& points, const Points& huge) {
    const Execution exact = by(plan, MINUET_MAPS_INDEXED);
    run(exact, huge, 3);
    const std::vector<int64_t> for_huge = rows_of(plan, exact);
    const NetworkRun expected = run(exact, points, 3);
    const std::vector<int64_t> enough = rows_of(plan, exact);
    std::vector<Way> ways;
    const auto add_way = [&](const char* what, std::vector<int64_t> capacities,
                             const minuet_execution_options& options) {
      ways.push_back({what, by(plan, MINUET_MAPS_INDEXED, capacities, options),
                      std::make_unique<Room>(machine(), capacities)});
    };
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    add_way("no more than it takes", enough, options);
    std::vector<int64_t> fourfold = enough, most = enough;
    for (size_t l = 0; l < enough.size(); ++l) {
      fourfold[l] = 4 * std::max(enough[l], kRowsOfLeastSlots);
      most[l] = std::max(enough[l], for_huge[l]);
    }
    add_way("four times the capacity", fourfold, options);
    const std::vector<int64_t> fewest(enough.size(), 1), many(enough.size(), 4 * kSlotsOfFewRows);
    options.level_slots = fewest.data();
    add_way("the fewest slots", fourfold, options);
    options.level_slots = many.data();
    add_way("four times the slots", enough, options);
    options.level_slots = nullptr;
    options.has_bounds = 1;
    set_bounds(points, 3, 90, options.least, options.greatest);
    add_way("other bounds", enough, options);
    options.has_bounds = 0;
    add_way("after a huge cloud", most, options);
    for (int repeat = 0; repeat < repeats_on(machine()); ++repeat) {
      SCOPED_TRACE("repeat " + std::to_string(repeat));
      fill(*ways.back().room, huge);
      enqueue(ways.back().execution, *ways.back().room);
      for (Way& way : ways) expect_run(way, points, 80 + static_cast<uint64_t>(repeat), expected);
    }
  }
};

/// The tensor stride of a level of networks of pairs.
Axes stride_of(int level) {
  Axes stride{1, 1, 1, 1};
  for (int l = 0; l < level; ++l) {
    for (size_t a = 0; a < stride.size(); ++a) stride[a] *= kSteps[l].stride[a];
  }
  return stride;
}

/// The output of each network is on a level of its own, with the rows in the order of the index.
TEST_P(IndexRepeatNetworkTest, RowsAndPairsInCapacityMode) {
  const Points huge = make_large(3, huge_points(machine()));
  std::vector<ShownMap> maps{{1, 1}, {2, 2}, {3, 3}};
  if (takes_few_clouds(machine())) maps = {{1, 1}};
  for (const ShownMap& map : maps) {
    const Plan plan = network(3, map);
    std::vector<NamedCloud> clouds = clouds_for(machine(), 3);
    // The level of the output has the superblocks that the finest one has without strides.
    Points scaled = make_equal_hashes(3);
    for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= i % 4 == 0 ? 1 : stride_of(map.to)[i % 4 - 1];
    clouds.push_back({"equal hashes on the level of the output", scaled});
    for (const auto& [name, points] : clouds) {
      SCOPED_TRACE("level " + std::to_string(map.to) + ", " + name);
      expect_repeats(plan.get(), points, huge);
    }
  }
}

MINUET_INSTANTIATE_SETS_TEST(IndexRepeatNetworkTest);

}  // namespace
}  // namespace minuet::abi
