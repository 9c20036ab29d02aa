#include "runtime/execution/arena_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace minuet {
namespace {

constexpr Lifetime kThroughout{Phase::Maps, Phase::Run}, kMaps{Phase::Maps, Phase::Views};
constexpr Lifetime kViews{Phase::Views, Phase::Views}, kRun{Phase::Run, Phase::Run};
constexpr Lifetime kPrepared{Phase::Views, Phase::Run};

/// The five parts of an execution, whose work lies in `work`.
std::vector<ArenaPart> parts_of_an_execution(Owner work) {
  return {{100, kThroughout, Owner::Arena},
          {40, kMaps, Owner::Arena},
          {20, kViews, work},
          {500, kRun, work},
          {7, kPrepared, Owner::Arena}};
}

TEST(ArenaPlan, WhatARunWorksInLiesOverWhatAPrepareWorkedIn) {
  const ArenaPlan plan = plan_arena(parts_of_an_execution(Owner::Arena), /*shares=*/true);
  EXPECT_EQ(plan.offsets, (std::vector<i64>{0, 100, 140, 100, 600}));
  EXPECT_EQ(plan.arena_bytes, 607);
  EXPECT_EQ(plan.scratch_bytes, 0);
}

TEST(ArenaPlan, PartsOfAQueueLieInItsBlock) {
  const ArenaPlan plan = plan_arena(parts_of_an_execution(Owner::QueueScratch), /*shares=*/true);
  EXPECT_EQ(plan.offsets, (std::vector<i64>{0, 100, 0, 0, 140}));
  EXPECT_EQ(plan.arena_bytes, 147);
  EXPECT_EQ(plan.scratch_bytes, 500);
}

TEST(ArenaPlan, NothingIsShared) {
  const ArenaPlan plan = plan_arena(parts_of_an_execution(Owner::Arena), /*shares=*/false);
  EXPECT_EQ(plan.offsets, (std::vector<i64>{0, 100, 140, 160, 660}));
  EXPECT_EQ(plan.arena_bytes, 667);
}

TEST(ArenaPlan, APartWithoutBytesMovesNone) {
  std::vector<ArenaPart> parts = parts_of_an_execution(Owner::Arena);
  parts[2].bytes = parts[3].bytes = parts[4].bytes = 0;
  EXPECT_EQ(plan_arena(parts, /*shares=*/true).arena_bytes, 140);
  EXPECT_EQ(plan_arena({}, /*shares=*/true).arena_bytes, 0);
}

/// Parts that are in use together never overlap, and each lies inside its block.
TEST(ArenaPlan, RandomPartsLieApart) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaPart> parts(random() % 12);
    for (ArenaPart& part : parts) {
      const i32 a = static_cast<i32>(random() % 3), b = static_cast<i32>(random() % 3);
      part = {static_cast<i64>(random() % 64),
              {static_cast<Phase>(std::min(a, b)), static_cast<Phase>(std::max(a, b))},
              random() % 2 ? Owner::Arena : Owner::QueueScratch};
    }
    const ArenaPlan plan = plan_arena(parts, /*shares=*/true);
    ASSERT_EQ(plan.offsets.size(), parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const i64 end = plan.offsets[i] + parts[i].bytes;
      EXPECT_LE(end, parts[i].owner == Owner::Arena ? plan.arena_bytes : plan.scratch_bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together = parts[i].owner == parts[j].owner &&
                              parts[i].lifetime.first <= parts[j].lifetime.last &&
                              parts[j].lifetime.first <= parts[i].lifetime.last;
        const bool apart = plan.offsets[j] + parts[j].bytes <= plan.offsets[i] || end <= plan.offsets[j];
        EXPECT_TRUE(!together || apart) << i << " and " << j;
      }
    }
  }
}

}  // namespace
}  // namespace minuet
