// One captured graph for clouds of many sizes, with capacities that one of them does not fit into by one
// point, voxel or slot of an index of voxels (kernels_templates/shared/voxel_index.h); through the C ABI, on
// every device.
#include <memory>
#include <string>

#include "tests/runtime/maps/index_network_fixture.h"

namespace minuet::abi {
namespace {

class IndexCapacityTest : public IndexedNetworks {
 protected:
  struct Shortage {
    std::string name;
    Points points;
    std::vector<int64_t> capacities;
    bool keeps_duplicates = false;
    int64_t most_points_of_slots = INT64_MAX;  // the most points that have slots enough
  };
  struct Sizes {
    std::vector<int64_t> rows;  // of each level
    NetworkRun run;
  };

  /// An execution whose memory lies between guards that no work may write to.
  class Guarded {
   public:
    Guarded(Machine& machine, minuet_plan* plan, minuet_execution_options options)
        : machine_(machine),
          bytes_(counters_of(make_execution(machine, plan, &options).get()).workspace_bytes),
          memory_(machine, 2 * kGuard + bytes_) {
      options.workspace = begin() + kGuard;
      options.workspace_bytes = bytes_;
      before_ = guards();
      execution_ = make_execution(machine, plan, &options);
    }
    const Execution& execution() const { return execution_; }
    void expect_guards() const { EXPECT_TRUE(guards() == before_); }

   private:
    static constexpr int64_t kGuard = 1 << 16;
    char* begin() const { return static_cast<char*>(memory_.data()); }
    std::vector<char> guards() const {
      std::vector<char> both(2 * kGuard);
      check(minuet_device_synchronize(machine_.device(), nullptr));
      check(minuet_device_copy(machine_.device(), both.data(), begin(), kGuard, 1));
      check(
          minuet_device_copy(machine_.device(), both.data() + kGuard, begin() + kGuard + bytes_, kGuard, 1));
      return both;
    }

    Machine& machine_;
    int64_t bytes_;
    Buffer memory_;
    std::vector<char> before_;
    Execution execution_{nullptr, {minuet_execution_destroy}};
  };

  Sizes sizes_of(minuet_plan* plan, const Execution& exact, const Points& points) {
    NetworkRun run = this->run(exact, points, 3);
    return {rows_of(plan, exact), std::move(run)};
  }
  /// Replays one graph, or where nothing is captured repeats the calls, for parts of the cloud.
  void expect_replays(minuet_plan* plan, const Execution& exact, const Shortage& shortage) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = MINUET_MAPS_INDEXED;
    options.keep_first_duplicate = shortage.keeps_duplicates;
    options.level_capacity = shortage.capacities.data();
    options.level_count = static_cast<int32_t>(shortage.capacities.size());
    const Guarded within(machine(), plan, options);
    Room room(machine(), shortage.capacities);
    const Stream stream(machine());
    fill(room, shortage.points);
    std::unique_ptr<CapturedGraph> graph;
    if (!machine().is_cpu()) {
      graph = std::make_unique<CapturedGraph>(stream.get(),
                                              [&] { enqueue(within.execution(), room, stream.get()); });
      ASSERT_TRUE(graph->whole());
    }
    for (const Points& part : make_parts(shortage.points)) {
      const int64_t count = static_cast<int64_t>(part.size()) / 4;
      SCOPED_TRACE(std::to_string(count) + " points");
      uint32_t status = 0;
      Sizes sizes;
      if (count > shortage.most_points_of_slots) {
        status = MINUET_CLOUD_INDEX_FULL;
      } else {
        sizes = sizes_of(plan, exact, part);
        bool fits = count <= shortage.capacities.front();
        for (size_t l = 0; l < sizes.rows.size(); ++l) fits = fits && sizes.rows[l] <= shortage.capacities[l];
        if (!fits) status = MINUET_CLOUD_PAST_CAPACITY, sizes.run = {};
      }
      fill(room, part);
      if (graph) {
        ASSERT_EQ(graph->launch(), CUDA_SUCCESS);
      } else {
        enqueue(within.execution(), room);
      }
      expect_output(within.execution(), room, status, sizes.run, stream.get());
      within.expect_guards();
    }
  }

  /// One point in each of `count` superblocks of a level whose hashes lead to the last slot of `hash_slots`.
  /// `stride` is that of the level's voxels.
  static Points at_the_last_slot(int64_t count, uint32_t hash_slots, const Axes& stride) {
    IndexLevel level{};
    level.hash_slots = hash_slots;
    Points points;
    for (int32_t i = 0; static_cast<int64_t>(points.size()) < 4 * count; ++i) {
      const i32 superblock[] = {0, i % 256 - 128, i / 256 % 256 - 128, i / 65536};
      if (first_slot(level, hash_of<3>(superblock)) != hash_slots - 1) continue;
      points.push_back(0);
      for (int a = 0; a < 3; ++a) points.push_back(superblock[a + 1] * 16 * stride[a]);
    }
    return points;
  }
};

/// Each level has a voxel more than there is room for, or the cloud a point, or nothing is short. What fits
/// is right, before and after what does not.
TEST_P(IndexCapacityTest, OneGraphAndEachCapacityOneShort) {
  const Plan plan = network(3, {3, 3});
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.keep_first_duplicate = 1;
  const Execution exact = by(plan.get(), MINUET_MAPS_INDEXED, {}, options);
  const Points points = make_random(3, 100, 91);
  const std::vector<int64_t> enough = sizes_of(plan.get(), exact, points).rows;
  std::vector<Shortage> shortages{{"nothing", points, enough}};
  for (size_t l = 0; l < enough.size(); ++l) {
    if (takes_few_clouds(machine()) && l % 2 == 0) continue;
    shortages.push_back({"level " + std::to_string(l), points, enough});
    --shortages.back().capacities[l];
  }
  Points doubled = points;
  doubled.insert(doubled.end(), points.begin(), points.begin() + 4 * 20);
  shortages.push_back({"points", doubled, enough, /*keeps_duplicates=*/true});
  shortages.back().capacities[0] += 20 - 1;
  for (const Shortage& shortage : shortages) {
    SCOPED_TRACE(shortage.name);
    expect_replays(plan.get(), exact, shortage);
  }
}

/// As many superblocks begin at the last slot that hashes lead to as there are slots behind it, and one more.
/// The levels have room for their voxels.
TEST_P(IndexCapacityTest, OneGraphAndSlotsOneShort) {
  constexpr int64_t kCapacity = 1500;  // of 4,096 slots
  constexpr uint32_t kHashSlots = kSlotTile - kSlotTile / 4;
  constexpr int64_t kSlots = kSlotTile / 4;  // the last hash slot and those behind it, but for the empty one
  const Plan plan = network(3, {0, 1});
  const Execution exact = by(plan.get(), MINUET_MAPS_INDEXED);
  for (const int32_t stride : {1, 2}) {
    for (const int64_t points : {kSlots, kSlots + 1}) {
      if (takes_few_clouds(machine()) && (stride == 1 || points == kSlots)) continue;
      Shortage shortage{"stride " + std::to_string(stride) + ", " + std::to_string(points) + " superblocks",
                        at_the_last_slot(points, kHashSlots, {stride, stride, stride, 1}),
                        {kCapacity, kCapacity}};
      shortage.most_points_of_slots = kSlots;
      // The other level gets so many slots that none of its runs is long.
      shortage.capacities[stride == 1 ? 1 : 0] = 40 * kCapacity;
      SCOPED_TRACE(shortage.name);
      expect_replays(plan.get(), exact, shortage);
    }
  }
}

MINUET_INSTANTIATE_SETS_TEST(IndexCapacityTest);

}  // namespace
}  // namespace minuet::abi
