// How many ranks the views of one sort get.
#include "codegen/choose/offset_order.h"

#include <gtest/gtest.h>

namespace minuet {
namespace {

constexpr i64 kFew = 1 << 20, kMany = kFew + 1;

i32 key_bits(const std::vector<MaskRanks>& ranks) {
  u64 keys = 0;
  for (const MaskRanks& view : ranks) keys += view.count;
  return bit_width_of(keys - 1);
}

TEST(ShareRanks, OneViewHasAllOfTwoPasses) {
  const MaskRanks few = share_ranks(27, kFew).front(), many = share_ranks(27, kMany).front();
  EXPECT_EQ(few.count, 1u << 16);
  EXPECT_EQ(many.count, 1u << 24);
  EXPECT_EQ(share_ranks(9, kMany).front().count, 1u << 9) << "as many as there are masks";
  EXPECT_TRUE(share_ranks({}, 0).empty());
}

TEST(ShareRanks, ViewsOfFewOffsetsHaveAllOfTheirs) {
  const std::vector<MaskRanks> ranks = share_ranks({27, 8, 27, 12, 13, 1}, kFew);
  const u32 shared = ((1u << 16) - (1u << 8) - (1u << 12) - (1u << 1)) / 3;
  EXPECT_EQ(ranks[0].count, shared);
  EXPECT_EQ(ranks[1].count, 1u << 8);
  EXPECT_EQ(ranks[2].count, shared);
  EXPECT_EQ(ranks[3].count, 1u << 12);
  EXPECT_EQ(ranks[4].count, 1u << 13);
  EXPECT_EQ(ranks[5].count, 1u << 1);
}

TEST(ShareRanks, ThreePassesWhereAViewWouldHaveTooFew) {
  EXPECT_EQ(key_bits(share_ranks(std::vector<i32>(8, 27), kFew)), 16);
  EXPECT_EQ(key_bits(share_ranks(std::vector<i32>(9, 27), kFew)), 24);
  EXPECT_LE(key_bits(share_ranks(std::vector<i32>(kMostViews, 27), kMany)), kMostRankKeyBits);
  EXPECT_LE(key_bits(share_ranks(std::vector<i32>(kMostViews, 12), kFew)), 16);
}

}  // namespace
}  // namespace minuet
