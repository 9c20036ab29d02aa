// The slots of an index of voxels (kernels_templates/shared/voxel_index.h): what a caller declares, what the
// library suggests, and the memory that follows; and pyramids, each capacity of which one cloud exceeds;
// through the C ABI, on every device.
#include <set>
#include <string>

#include "include/minuet/index.h"
#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/runtime/maps/guarded_memory.h"
#include "tests/runtime/maps/index_network_fixture.h"

namespace minuet::abi {
namespace {

using Numbers = std::vector<int64_t>;  // one of each level

/// One point in each of `count` superblocks, in an order without pattern.
Points make_apart(int32_t count) {
  Points points;
  for (int32_t i = 0; i < count; ++i) {
    const auto cell = static_cast<int32_t>(static_cast<uint32_t>(i) * 0x9e3779b1u >> 15);  // all different
    add_point(points, 3, kOneBatch, [&](int a) { return (cell >> 6 * a & 63) * 64 - 2048 + 7 * a; });
  }
  return points;
}

/// The number of superblocks of a level whose voxels have this stride on each axis.
int64_t superblocks_of(const Points& points, int32_t stride) {
  std::set<std::vector<int32_t>> superblocks;
  for (size_t i = 0; i < points.size(); i += 4) {
    std::vector<int32_t> one{points[i]};
    for (size_t a = 1; a <= 3; ++a)
      one.push_back(static_cast<int32_t>(std::floor(points[i + a] / (16.0 * stride))));
    superblocks.insert(one);
  }
  return static_cast<int64_t>(superblocks.size());
}

minuet_index_sizes sizes_of(const Numbers& capacities, const Numbers& slots) {
  minuet_index_options options = MINUET_INDEX_OPTIONS_INIT;
  options.level_capacity = capacities.data();
  options.level_slots = slots.empty() ? nullptr : slots.data();
  options.level_count = static_cast<int32_t>(capacities.size());
  minuet_index_sizes sizes = MINUET_INDEX_SIZES_INIT;
  check(minuet_index_bytes(&options, &sizes));
  return sizes;
}

class IndexSlotsTest : public IndexedNetworks {
 protected:
  /// A network with two levels, of strides 1 and 2.
  Plan network() { return IndexedNetworks::network(3, {0, 1}); }
  Execution within(minuet_plan* plan, const Numbers& capacities, const Numbers& slots) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    if (!slots.empty()) options.level_slots = slots.data();
    return by(plan, MINUET_MAPS_INDEXED, capacities, options);
  }
  int64_t workspace_bytes(minuet_plan* plan, const Numbers& capacities, const Numbers& slots) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = MINUET_MAPS_INDEXED;
    options.level_capacity = capacities.data();
    options.level_slots = slots.empty() ? nullptr : slots.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    int64_t bytes = 0;
    check(minuet_plan_workspace_bytes(plan, machine().arch().c_str(), &options, 0, 0, &bytes));
    return bytes;
  }
  Numbers suggested(const Execution& execution, double factor) {
    Numbers slots(2);
    check(minuet_execution_suggest_slots(execution.get(), factor, slots.data(), 2, nullptr));
    return slots;
  }

  /// The pyramid of two levels, of strides 1 and 2, that a row of a test builds.
  struct Built {
    uint32_t status = 0;
    std::vector<int32_t> counts;
    Points coarse;  // the coordinates of level 1
  };
  PyramidHandle make_pyramid(const Numbers& capacities, const Numbers& slots) {
    minuet_pyramid_level levels[2]{level_of(capacities[0]), level_of(capacities[1], 0, 2)};
    for (size_t l = 0; l < slots.size(); ++l) levels[l].slots = slots[l];
    const minuet_pyramid_map map = map_between(0, 1, 2, MINUET_PURPOSE_CONVOLUTION);
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.levels = levels, options.level_count = 2;
    options.maps = &map, options.map_count = 1;
    options.keep_coordinates = 2;
    minuet_pyramid* made = nullptr;
    check(minuet_pyramid_create(machine().context(), &options, &made));
    PyramidHandle pyramid(made, {minuet_pyramid_destroy});
    check(minuet_pyramid_load(made, machine().device()));
    return pyramid;
  }
  /// Builds within guarded memory that is poisoned before.
  Built build(minuet_pyramid* pyramid, const Numbers& capacities, const Points& points) {
    int64_t bytes = 0, workspace_bytes = 0;
    check(minuet_pyramid_bytes(pyramid, machine().arch().c_str(), &bytes, &workspace_bytes));
    const GuardedMemory buffer(machine(), bytes), workspace(machine(), workspace_bytes);
    const int64_t rows = capacities[0];
    Points padded = points;
    padded.resize(static_cast<size_t>(4 * rows));
    const Buffer coordinates(machine(), padded),
        count(machine(), std::vector<int32_t>{static_cast<int32_t>(points.size() / 4)});
    const Buffer status(machine(), 4), counts(machine(), 12), coarse(machine(), 16 * capacities[1]);
    minuet_pyramid_arguments given = MINUET_PYRAMID_ARGUMENTS_INIT;
    given.buffer = buffer.data(), given.buffer_bytes = bytes;
    given.workspace = workspace.data(), given.workspace_bytes = workspace_bytes;
    given.coordinates = coordinates.integers(), given.most = rows;
    given.count = count.integers();
    given.status = static_cast<uint32_t*>(status.data());
    given.counts = static_cast<int32_t*>(counts.data());
    check(minuet_pyramid_build(pyramid, machine().device(), &given, nullptr));
    check(minuet_pyramid_coordinates(pyramid, machine().device(), buffer.data(), bytes, 1,
                                     static_cast<int32_t*>(coarse.data()), nullptr));
    check(minuet_device_synchronize(machine().device(), nullptr));
    buffer.expect_guards(), workspace.expect_guards();
    return {status.read<uint32_t>().front(), counts.read<int32_t>(), coarse.read<int32_t>()};
  }
};

/// Two slots for each superblock, and the numbers of superblocks are those of the cloud.
TEST_P(IndexSlotsTest, AreSuggestedForClouds) {
  const Plan plan = network();
  const Execution exact = by(plan.get(), MINUET_MAPS_INDEXED);
  const auto expected = [](double superblocks) {
    return (static_cast<int64_t>(2 * superblocks) + kSlotTile / 4 + kSlotTile - 1) / kSlotTile * kSlotTile;
  };
  for (const Points& points : {make_apart(takes_few_clouds(machine()) ? 2000 : 9000), make_cube(3)}) {
    const NetworkRun found = run(exact, points, 3);
    for (const double factor : {1.0, 4.0}) {
      const Numbers slots = suggested(exact, factor);
      for (const size_t level : {0u, 1u}) {
        const auto superblocks = static_cast<double>(superblocks_of(points, level == 0 ? 1 : 2));
        EXPECT_EQ(slots[level], expected(factor * superblocks)) << "level " << level;
      }
      const Numbers capacities = rows_of(plan.get(), exact);
      const Execution few = within(plan.get(), capacities, slots);
      Room room(machine(), capacities);
      fill(room, points);
      enqueue(few, room);
      expect_output(few, room, 0, found);
      EXPECT_EQ(suggested(few, factor), slots) << "from capacity mode";
    }
  }
}

/// The memory of executions and of pyramids shrinks by what the tables of the index do.
TEST_P(IndexSlotsTest, AreMostOfTheMemory) {
  const Plan plan = network();
  const Numbers capacities{100'000, 60'000}, few{8192, 4096};
  const minuet_index_sizes usual = sizes_of(capacities, {}), declared = sizes_of(capacities, few);
  EXPECT_EQ(declared.slots, 8192 + 4096);
  EXPECT_GE(usual.slots, 2 * (100'000 + 60'000));
  const int64_t saved = usual.table - declared.table;
  EXPECT_GT(saved, 32 * (usual.slots - declared.slots));
  EXPECT_EQ(workspace_bytes(plan.get(), capacities, {}) - workspace_bytes(plan.get(), capacities, few),
            saved);
  for (const Numbers& slots : {Numbers(), few}) {
    minuet_execution_info info = MINUET_EXECUTION_INFO_INIT;
    check(minuet_execution_query(within(plan.get(), capacities, slots).get(), &info));
    EXPECT_EQ(info.workspace_bytes, workspace_bytes(plan.get(), capacities, slots));
  }
  const auto pyramid_bytes = [&](const Numbers& slots) {
    const PyramidHandle pyramid = make_pyramid(capacities, slots);
    int64_t bytes = 0, workspace_bytes = 0;
    check(minuet_pyramid_bytes(pyramid.get(), machine().arch().c_str(), &bytes, &workspace_bytes));
    return bytes + workspace_bytes;
  };
  EXPECT_EQ(pyramid_bytes({}) - pyramid_bytes(few), saved);
}

/// A pyramid of a network has the slots that level_slots declares. Two levels of this network have the same
/// coordinates, so that the pyramid has one with the larger numbers.
TEST_P(IndexSlotsTest, OfThePyramidOfANetwork) {
  NetworkSpec spec;
  spec.description = R"({"name": "twice", "ndim": 3, "in_channels": 8, "channels": [8],
      "outputs": ["one", "two"], "layers": [
      {"op": "max_pool", "name": "a", "kernel_size": 2, "stride": 2},
      {"op": "max_pool", "name": "b", "kernel_size": 2, "stride": 2, "output": "one"},
      {"op": "max_pool", "name": "c", "input": "input", "kernel_size": 4, "stride": 4, "output": "two"}]})";
  spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan plan = make_network(machine(), spec);
  ASSERT_EQ(info_of(plan.get()).levels, 4);
  const auto workspace_of = [&](const Numbers& capacities, const Numbers& slots) {
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = plan.get();
    options.level_capacity = capacities.data(), options.level_count = 4;
    if (!slots.empty()) options.level_slots = slots.data();
    minuet_pyramid* made = nullptr;
    check(minuet_pyramid_create(machine().context(), &options, &made));
    const PyramidHandle pyramid(made, {minuet_pyramid_destroy});
    int64_t bytes = 0, workspace_bytes = 0;
    check(minuet_pyramid_bytes(made, machine().arch().c_str(), &bytes, &workspace_bytes));
    return workspace_bytes;
  };
  const Numbers capacities{50'000, 30'000, 5'000, 20'000}, merged{50'000, 30'000, 20'000};
  const int64_t usual = workspace_of(capacities, {}), table = sizes_of(merged, {}).table;
  const auto expect_slots = [&](const Numbers& declared, const Numbers& of_levels) {
    EXPECT_EQ(usual - workspace_of(capacities, declared), table - sizes_of(merged, of_levels).table);
  };
  expect_slots({4096, 4096, 4096, 8192}, {4096, 4096, 8192});
  expect_slots({4096, 4096, 8192, 4096}, {4096, 4096, 8192});
  expect_slots({4096, 0, 8192, 0}, {4096, 0, 0});
  expect_slots({0, 0, 0, 4096}, {0, 0, 0});
}

/// A point, a voxel of a level or a superblock of a level has no room, or a coordinate is outside: a bit of
/// the status, no rows, nothing written outside. A part of the cloud is right in the same pyramid.
TEST_P(IndexSlotsTest, EachCapacityOfAPyramidOneShort) {
  const Points points = make_random(3, 100, 92), part(points.begin(), points.begin() + 4 * 10);
  Numbers enough{static_cast<int64_t>(points.size()) / 4, 0};
  std::set<std::vector<int32_t>> coarse;
  for (size_t i = 0; i < points.size(); i += 4) {
    std::vector<int32_t> cell(points.begin() + static_cast<std::ptrdiff_t>(i),
                              points.begin() + static_cast<std::ptrdiff_t>(i + 4));
    for (size_t a = 1; a <= 3; ++a) cell[a] >>= 1;
    coarse.insert(cell);
  }
  enough[1] = static_cast<int64_t>(coarse.size());
  Points outside = points, negative = points, twice = points;
  outside[2] = 1 << 20;
  negative[0] = -1;
  std::copy_n(points.begin(), 4, twice.begin() + 4);
  Points one_more = points;
  one_more.insert(one_more.end(), {0, 1000, 1000, 1000});
  const Points full = make_points_at_the_last_slot(kSlotsAtTheEnd + 1, kSlotTile, {1, 1, 1, 1}),
               coarse_full = make_points_at_the_last_slot(kSlotsAtTheEnd + 1, kSlotTile, {2, 2, 2, 1}),
               just_fits(full.begin(), full.end() - 4);
  const Numbers many{60'000, 60'000};
  const struct {
    const char* name;
    Points points;
    Numbers capacities, slots;
    uint32_t status;
  } rows[] = {
      {"nothing", points, enough, {}, 0},
      {"points", one_more, enough, {}, MINUET_CLOUD_PAST_CAPACITY},
      {"level 0", points, {enough[0] - 1, enough[1]}, {}, MINUET_CLOUD_PAST_CAPACITY},
      {"level 1", points, {enough[0], enough[1] - 1}, {}, MINUET_CLOUD_PAST_CAPACITY},
      {"no slots", just_fits, many, {kSlotTile, 0}, 0},
      {"slots of level 0", full, many, {kSlotTile, 0}, MINUET_CLOUD_INDEX_FULL},
      {"slots of level 1", coarse_full, many, {0, kSlotTile}, MINUET_CLOUD_INDEX_FULL},
      {"outside the range of the keys", outside, enough, {}, MINUET_CLOUD_OUTSIDE_KEYS},
      {"a negative batch index", negative, enough, {}, MINUET_CLOUD_NEGATIVE_BATCH},
      {"a duplicate", twice, enough, {}, MINUET_CLOUD_DUPLICATE},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const PyramidHandle pyramid = make_pyramid(row.capacities, row.slots);
    const Built built = build(pyramid.get(), row.capacities, row.points);
    EXPECT_EQ(built.status, row.status);
    const Built again = build(pyramid.get(), row.capacities, part);
    EXPECT_EQ(again.status, 0u);
    EXPECT_EQ(again.counts.front(), 10);
    if (row.status == 0) {
      EXPECT_EQ(built.counts.front(), static_cast<int32_t>(row.points.size() / 4));
      continue;
    }
    EXPECT_EQ(built.counts, std::vector<int32_t>(3, 0));
    EXPECT_EQ(built.coarse, Points(built.coarse.size(), 0));
  }
}

MINUET_INSTANTIATE_SETS_TEST(IndexSlotsTest);

}  // namespace
}  // namespace minuet::abi
