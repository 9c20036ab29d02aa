// One captured graph for clouds of many sizes, with capacities that one of them does not fit into by one
// point, voxel or slot of an index of voxels (kernels_templates/shared/voxel_index.h); through the C ABI, on
// every device.
#include <memory>
#include <string>

#include "tests/runtime/maps/guarded_memory.h"
#include "tests/runtime/maps/index_network_fixture.h"

namespace minuet::abi {
namespace {

class IndexCapacityTest : public IndexedNetworks {
 protected:
  struct Shortage {
    std::string name;
    Points points;
    std::vector<int64_t> capacities;
    std::vector<int64_t> slots = {};  // of each level, or none that are declared
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
        : memory_(machine, counters_of(make_execution(machine, plan, &options).get()).workspace_bytes) {
      options.workspace = memory_.data();
      options.workspace_bytes = memory_.bytes();
      execution_ = make_execution(machine, plan, &options);
    }
    const Execution& execution() const { return execution_; }
    void expect_guards() const { memory_.expect_guards(); }

   private:
    GuardedMemory memory_;
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
    if (!shortage.slots.empty()) options.level_slots = shortage.slots.data();
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
  shortages.push_back({"points", doubled, enough, {}, /*keeps_duplicates=*/true});
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
  const Plan plan = network(3, {0, 1});
  const Execution exact = by(plan.get(), MINUET_MAPS_INDEXED);
  for (const int32_t stride : {1, 2}) {
    for (const int64_t points : {kSlotsAtTheEnd, kSlotsAtTheEnd + 1}) {
      if (takes_few_clouds(machine()) && (stride == 1 || points == kSlotsAtTheEnd)) continue;
      Shortage shortage{"stride " + std::to_string(stride) + ", " + std::to_string(points) + " superblocks",
                        make_points_at_the_last_slot(points, kSlotTile, {stride, stride, stride, 1}),
                        {kCapacity, kCapacity}};
      shortage.most_points_of_slots = kSlotsAtTheEnd;
      // The other level gets so many slots that none of its runs is long.
      shortage.capacities[stride == 1 ? 1 : 0] = 40 * kCapacity;
      SCOPED_TRACE(shortage.name);
      expect_replays(plan.get(), exact, shortage);
    }
  }
}

/// The same with slots that are declared, beside capacities for which there are many more by default.
TEST_P(IndexCapacityTest, OneGraphAndDeclaredSlotsOneShort) {
  constexpr int64_t kCapacity = 60'000, kFew = kSlotTile, kMany = 40 * kSlotTile;
  const Plan plan = network(3, {0, 1});
  const Execution exact = by(plan.get(), MINUET_MAPS_INDEXED);
  for (const int32_t stride : {1, 2}) {
    for (const int64_t points : {kSlotsAtTheEnd, kSlotsAtTheEnd + 1}) {
      if (takes_few_clouds(machine()) && (stride == 2 || points == kSlotsAtTheEnd)) continue;
      Shortage shortage{"stride " + std::to_string(stride) + ", " + std::to_string(points) + " superblocks",
                        make_points_at_the_last_slot(points, kFew, {stride, stride, stride, 1}),
                        {kCapacity, kCapacity},
                        {stride == 1 ? kFew : kMany, stride == 1 ? kMany : kFew}};
      shortage.most_points_of_slots = kSlotsAtTheEnd;
      SCOPED_TRACE(shortage.name);
      expect_replays(plan.get(), exact, shortage);
    }
  }
}

MINUET_INSTANTIATE_SETS_TEST(IndexCapacityTest);

}  // namespace
}  // namespace minuet::abi
