#include "runtime/engine/ops/convolution_groups.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

namespace minuet {
namespace {

GroupPlan group(const std::vector<i32>& counts, i32 direct, GroupingChoice choice = {}) {
  GroupPlan plan(static_cast<i32>(counts.size()));
  llvm::Error error = group_gemms(counts.data(), static_cast<i32>(counts.size()), direct, choice, plan);
  EXPECT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  return plan;
}

/// Every property a plan must have, whatever the counts.
void expect_sound(const GroupPlan& plan, const std::vector<i32>& counts, const GroupingChoice& choice) {
  const i32 volume = static_cast<i32>(counts.size());
  std::vector<int> owner(static_cast<std::size_t>(plan.gathered_rows), -1);
  auto claim = [&](i64 first, i64 rows, i32 k) {
    for (i64 row = first; row < first + rows; ++row) {
      ASSERT_LT(row, plan.gathered_rows);
      ASSERT_EQ(owner[row], -1) << "row " << row << " belongs to two offsets";
      owner[row] = k;
    }
  };
  i64 padding = 0;
  std::set<i32> grouped;
  for (const GemmGroup& part : plan.groups) {
    EXPECT_GT(part.count, 0);
    EXPECT_EQ(part.height % choice.height_step, 0);
    for (i32 i = 0; i < part.count; ++i) {
      const i32 k = plan.order[part.first_slot + i];
      EXPECT_TRUE(grouped.insert(k).second);
      EXPECT_GE(part.height, counts[k]);
      EXPECT_EQ(plan.row_base[k], part.first_row + i * part.height);
      EXPECT_EQ(plan.padding_start[k], plan.row_base[k] + counts[k]);
      padding += part.height - counts[k];
      claim(plan.row_base[k], part.height, k);
    }
  }
  i64 previous = 0;
  for (i32 k = 0; k < volume; ++k) {
    EXPECT_EQ(grouped.count(k), counts[k] > 0 && k != plan.direct_offset ? 1u : 0u) << "offset " << k;
    const i64 own = plan.padding_ends[k] - previous;
    previous = plan.padding_ends[k];
    const i64 owned = std::count(owner.begin(), owner.end(), k);
    EXPECT_EQ(own, grouped.count(k) ? owned - counts[k] : 0);
  }
  EXPECT_EQ(plan.padding_rows, padding);
  EXPECT_EQ(std::count(owner.begin(), owner.end(), -1), 0) << "rows that belong to no offset";
  EXPECT_EQ(plan.pairs, std::accumulate(counts.begin(), counts.end(), i64{0}));
}

/// Slices hold every offset of the plan once, in the plan's own rows, and no more rows than asked for.
void expect_sound_slices(const GroupPlan& plan, i64 rows) {
  GemmSlices slices;
  slice_groups(plan, 1, slices);  // what it holds before makes no difference
  slice_groups(plan, rows, slices);
  ASSERT_FALSE(slices.slices.empty());
  EXPECT_EQ(slices.slices.size() > 1, plan.gathered_rows > rows);
  EXPECT_EQ(needs_sums(plan, rows), plan.direct_rows > 0 || slices.slices.size() > 1);
  i64 row = 0;
  i32 group = 0;
  std::multiset<i32> offsets, expected;
  for (const GemmSlice& slice : slices.slices) {
    EXPECT_EQ(slice.first_row, row);
    EXPECT_EQ(slice.first_group, group);
    EXPECT_LE(slice.last_row - slice.first_row, rows);
    row = slice.last_row, group = slice.last_group;
    i64 height = std::numeric_limits<i64>::max();
    for (i32 i = slice.first_group; i < slice.last_group; ++i) {
      const GemmGroup& part = slices.groups[i];
      EXPECT_LE(part.height, height) << "the largest first";
      height = part.height;
      for (i32 member = 0; member < part.count; ++member) {
        const i32 k = plan.order[part.first_slot + member];
        offsets.insert(k);
        EXPECT_EQ(plan.row_base[k], slice.first_row + part.first_row + member * part.height);
      }
    }
  }
  EXPECT_EQ(row, plan.gathered_rows);
  EXPECT_EQ(group, static_cast<i32>(slices.groups.size()));
  for (const GemmGroup& part : plan.groups) {
    for (i32 member = 0; member < part.count; ++member) expected.insert(plan.order[part.first_slot + member]);
  }
  EXPECT_EQ(offsets, expected);
}

TEST(Grouping, RandomCountsKeepEveryProperty) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const i32 volume = 1 + static_cast<i32>(random() % 30);
    std::vector<i32> counts(volume);
    for (i32& count : counts) count = random() % 4 == 0 ? 0 : static_cast<i32>(random() % 700);
    const i32 direct = random() % 2 ? static_cast<i32>(random() % volume) : -1;
    const GroupingChoice choice{(random() % 100) / 100.0, 1 << (random() % 7)};
    const GroupPlan plan = group(counts, direct, choice);
    expect_sound(plan, counts, choice);
    for (const i64 scratch : {i64{1}, 1 + static_cast<i64>(random() % 4000), plan.gathered_rows * 8}) {
      expect_sound_slices(plan, slice_rows(plan, 8, scratch));
    }
  }
}

/// Executions group anew into the same plan for each cloud: nothing of the groups before may be left in it.
TEST(Grouping, APlanThatIsUsedAgainIsAsANewOne) {
  const GroupingChoice choice{0.5, 16};
  const std::vector<i32> full{3, 70, 5, 9, 41}, some{0, 70, 0, 9, 0}, one{0, 0, 7, 0, 0}, none(5, 0);
  for (const std::vector<i32>& before : {full, some, one, none}) {
    for (const std::vector<i32>& counts : {full, some, one, none}) {
      for (const auto& [direct_before, direct] : {std::pair{-1, -1}, {-1, 1}, {1, -1}, {1, 2}}) {
        SCOPED_TRACE(testing::PrintToString(before) + " before " + testing::PrintToString(counts));
        GroupPlan plan(5);
        const GroupPlan fresh = group(counts, direct, choice);
        ASSERT_FALSE(llvm::errorToBool(group_gemms(before.data(), 5, direct_before, choice, plan)));
        ASSERT_FALSE(llvm::errorToBool(group_gemms(counts.data(), 5, direct, choice, plan)));
        expect_sound(plan, counts, choice);
        EXPECT_EQ(plan.order, fresh.order);
        EXPECT_EQ(plan.row_base, fresh.row_base);
        EXPECT_EQ(plan.padding_ends, fresh.padding_ends);
        EXPECT_EQ(plan.padding_start, fresh.padding_start);
        EXPECT_EQ(plan.padding_rows, fresh.padding_rows);
        EXPECT_EQ(plan.largest_height, fresh.largest_height);
        EXPECT_EQ(plan.direct_rows, fresh.direct_rows);
      }
    }
  }
}

TEST(Grouping, GroupsOnlyWhileThePaddingPays) {
  // 100, 101, 102 waste 3 rows of 303; adding 300 would waste 597 of 603.
  const GroupPlan plan = group({300, 100, 102, 101}, -1, {0.1, 1});
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].height, 300);  // largest first
  EXPECT_EQ(plan.groups[1].count, 3);
  EXPECT_EQ(plan.groups[1].height, 102);
  EXPECT_EQ(plan.padding_rows, 3);
  EXPECT_EQ(plan.streams, kMostGemmStreams);
  EXPECT_EQ(group({300, 100}, -1, {0.1, 1, 1}).streams, 1);
}

TEST(Grouping, EqualSizesKeepTheOrderOfOffsets) {
  EXPECT_EQ(group({5, 5, 5, 5}, -1).order, (std::vector<i32>{0, 1, 2, 3}));
}

TEST(Grouping, NothingToDoIsFine) {
  const GroupPlan plan = group({0, 0, 0}, 1);
  EXPECT_TRUE(plan.groups.empty());
  EXPECT_EQ(plan.gathered_rows, 0);
  EXPECT_EQ(plan.padding_rows, 0);
}

TEST(Grouping, TooManyRowsAreAnErrorThatSaysSo) {
  std::vector<i32> counts(3, 1 << 30);
  GroupPlan plan(3);
  StatusError error = take_status(group_gemms(counts.data(), 3, -1, {}, plan));
  EXPECT_EQ(error.code(), StatusCode::OutOfRange);
  EXPECT_NE(error.message().find("split the batch"), std::string::npos);
}

}  // namespace
}  // namespace minuet
