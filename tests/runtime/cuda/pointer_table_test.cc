#include "runtime/cuda/pointer_table.h"

#include <gtest/gtest.h>

namespace minuet {
namespace {

TEST(PointerTable, EachSlotHasItsOffsetsWeightsAndItsOwnRows) {
  char weights[64], inputs[640], outputs[1280];
  const MemberAddresses members{weights, 8, inputs, 4, outputs, 16};
  const std::vector<i32> order{4, 1, 3, 0, 2};
  constexpr i32 kVolume = 5;
  void* const untouched = members.inputs;
  std::vector<void*> table(3 * kVolume, untouched);
  GemmGroup group;
  group.first_slot = 1;
  group.count = 3;
  group.first_row = 10;
  group.height = 20;
  write_pointers(members, order.data(), group, kVolume, table.data());
  for (i32 slot = 0; slot < kVolume; ++slot) {
    const bool inside = slot >= 1 && slot < 4;
    const i64 row = 10 + (slot - 1) * 20;
    EXPECT_EQ(table[slot], inside ? static_cast<void*>(weights + order[slot] * 8) : untouched);
    EXPECT_EQ(table[kVolume + slot], inside ? static_cast<void*>(inputs + row * 4) : untouched);
    EXPECT_EQ(table[2 * kVolume + slot], inside ? static_cast<void*>(outputs + row * 16) : untouched);
  }
}

TEST(PointerTable, ReachesPastFourGigabytes) {
  const u64 base = 1 << 20;
  void* const address = reinterpret_cast<void*>(base);
  const MemberAddresses members{address, i64{1} << 30, address, 512, address, 1024};
  const std::vector<i32> order{26};
  GemmGroup group;
  group.count = 1;
  group.first_row = (i64{1} << 31) - 64;
  void* table[3] = {};
  write_pointers(members, order.data(), group, 1, table);
  EXPECT_EQ(reinterpret_cast<u64>(table[0]), base + (u64{26} << 30));
  EXPECT_EQ(reinterpret_cast<u64>(table[1]), base + static_cast<u64>(group.first_row) * 512);
  EXPECT_EQ(reinterpret_cast<u64>(table[2]), base + static_cast<u64>(group.first_row) * 1024);
}

}  // namespace
}  // namespace minuet
