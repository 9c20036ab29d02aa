// The order of offsets, and how many ranks the views of one sort get.
#include "codegen/choose/offset_order.h"

#include <gmock/gmock.h>

#include "codegen/choose/problem.h"

namespace minuet {
namespace {

constexpr i64 kFew = 1 << 20, kMany = kFew + 1;

i32 key_bits(const std::vector<MaskRanks>& ranks) {
  u64 keys = 0;
  for (const MaskRanks& view : ranks) keys += view.count;
  return bit_width_of(keys - 1);
}

TEST(OrderOffsets, AListIsOrderedByItsOwnOffsets) {
  const OffsetList list{{0, 0, 0, 0},  {1, 1, 0, 0},  {5, 0, 0, 0},  {1, 0, 0, 0},
                        {1, -1, 1, 0}, {-2, 1, 0, 0}, {0, -7, 0, 0}, {0, 0, 1, 0}};
  const AxisArray ones{1, 1, 1, 1};
  const OffsetOrder order =
      order_offsets(make_geometry(3, ones, ones, {4, 4, 4, 1}, std::nullopt, list), list);
  ASSERT_EQ(order.ranked, 8);
  EXPECT_THAT(std::vector<u16>(order.offsets, order.offsets + 8),
              testing::ElementsAre(4, 5, 1, 6, 2, 3, 7, 0));
}

TEST(OrderOffsets, ABoxAsAListHasTheBoxsOrder) {
  const AxisArray ones{1, 1, 1, 1}, size{3, 2, 3, 1};
  OffsetList list;
  for (i32 k = 0; k < 18; ++k) list.push_back({k / 6 - 1, k / 3 % 2, k % 3 - 1, 0});
  const OffsetOrder of_box = order_offsets(make_geometry(3, size, ones, ones));
  const OffsetOrder of_list = order_offsets(make_geometry(3, ones, ones, ones, std::nullopt, list), list);
  EXPECT_EQ(of_list.ranked, 18);
  EXPECT_TRUE(std::equal(of_list.offsets, of_list.offsets + 18, of_box.offsets));
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
