// The number of slots of an index, and the bytes of its parts.
#include "runtime/engine/set_index.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "runtime/engine/arena.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace minuet {
namespace {

constexpr i64 kBytesOfSlot = 33, kBytesOfRow = 24;

/// The bytes of the parts themselves, as they are placed.
i64 bytes_of(const std::vector<i64>& capacities, const std::vector<i64>& declared) {
  const IndexSizes sizes = measure_index(capacities, declared);
  return sizes.table + sizes.rows;
}

/// Expects that a slot takes at most 33 bytes, and a row at most 24, all else of the index included.
void expect_bound(const std::vector<i64>& capacities, const std::vector<i64>& declared) {
  i64 slots = 0;
  for (std::size_t l = 0; l < capacities.size(); ++l)
    slots += level_slots(capacities[l], declared.empty() ? 0 : declared[l]);
  EXPECT_EQ(measure_index(capacities, declared).slots, slots);
  const i64 rows = std::accumulate(capacities.begin(), capacities.end(), i64{0});
  const i64 most = kBytesOfSlot * slots + kBytesOfRow * rows;
  if (kSharesMemory) {
    EXPECT_LE(bytes_of(capacities, declared), most);
  }
  // The bound says something: slots and places of rows, at least, take that much.
  EXPECT_GE(bytes_of(capacities, declared), i64{sizeof(Superblock)} * slots + i64{sizeof(RowPlace)} * rows);
}

TEST(SetIndexTest, TakesAtMost33BytesASlotAnd24ARow) {
  Random random(5);
  for (const i64 capacity : {1, 2, 255, 256, 257, 1500, 4096, 77741, 131072, 1000000, 20000000, 1 << 30}) {
    for (const i64 declared : {0, 1, 4096, 4097, 300000, 1 << 26}) {
      for (const std::size_t levels : {1u, 5u, 16u}) {
        SCOPED_TRACE(testing::Message() << levels << " levels of " << capacity << " rows, " << declared);
        std::vector<i64> capacities(levels, capacity), slots(levels, declared);
        expect_bound(capacities, slots);
        for (std::size_t l = 1; l < levels; ++l) {
          capacities[l] = 1 + static_cast<i64>(random.below(static_cast<u64>(capacity)));
          slots[l] = static_cast<i64>(random.below(static_cast<u64>(declared + 1)));
        }
        expect_bound(capacities, slots);
        expect_bound(capacities, {});
      }
    }
  }
}

TEST(SetIndexTest, SlotsAreDeclaredOrSufficeForAnyCloud) {
  for (const i64 capacity : {1, 1000, 1536, 1537, 100000}) {
    const i64 slots = default_level_slots(capacity);
    EXPECT_EQ(level_slots(capacity), slots);
    EXPECT_EQ(slots % kSlotTile, 0);
    // The table is at most half full, apart from the slots past the range of the hashes.
    EXPECT_GE(slots - kSlotTile / 4, 2 * capacity);
    EXPECT_LT(slots - kSlotTile, 2 * capacity + kSlotTile / 4);
  }
  EXPECT_EQ(default_level_slots(1 << 30), kMostIndexSlots);
  EXPECT_EQ(level_slots(1000000, 1), 32768) << "one slot for 32 rows, in whole tiles";
  EXPECT_EQ(level_slots(1000, 1), 4096);
  EXPECT_EQ(level_slots(1000, 4096), 4096);
  EXPECT_EQ(level_slots(1000, 4097), 8192);
  EXPECT_EQ(level_slots(1 << 30, 1), 1 << 25);
  EXPECT_EQ(level_slots(1, kMostIndexSlots), kMostIndexSlots);
}

/// The parts of levels lie one after the other in the parts of the index.
TEST(SetIndexTest, LevelsHaveTheSlotsThatAreDeclared) {
  const std::vector<i64> capacities{5000, 300, 7000}, declared{0, 9000, 1};
  IndexMemory memory;
  Placement parts = Placement::of_stand_ins(0);
  place_index_table(parts, capacities, memory, declared);
  VoxelIndex index{};
  assign_memory(index, memory, capacities, declared);
  const u32 expected[] = {12288, 12288, 4096};
  i64 first = 0;
  for (int l = 0; l < 3; ++l) {
    EXPECT_EQ(index.level[l].slots, expected[l]);
    EXPECT_EQ(index.level[l].hash_slots, expected[l] - kSlotTile / 4);
    EXPECT_EQ(index.level[l].table, memory.table + first);
    EXPECT_EQ(index.level[l].taken, memory.taken + first / 32);
    first += expected[l];
  }
  EXPECT_EQ(memory.slots, first);
}

TEST(SetIndexTest, NumbersThatNoLevelCanHaveAreRefused) {
  EXPECT_FALSE(llvm::errorToBool(check_slots(0)));
  EXPECT_FALSE(llvm::errorToBool(check_slots(kMostIndexSlots)));
  EXPECT_TRUE(llvm::errorToBool(check_slots(-1)));
  EXPECT_TRUE(llvm::errorToBool(check_slots(kMostIndexSlots + 1)));
}

}  // namespace
}  // namespace minuet
