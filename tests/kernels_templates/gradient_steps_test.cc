// The kernel list_steps in the shim, and how steps, parts and slots are divided.
#include <gtest/gtest.h>

#include "tests/kernels_templates/gradient_lists.h"

namespace minuet {
namespace {

void expect_steps(const Steps& steps, const std::vector<i32>& counts) {
  i32 first = 0, step = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    ASSERT_EQ(steps.first_pair[k], first) << k;
    ASSERT_EQ(steps.first_step[k], step) << k;
    first += counts[k], step += (counts[k] + kStepPairs - 1) / kStepPairs;
  }
  ASSERT_EQ(steps.first_pair.back(), first);
  ASSERT_EQ(steps.steps(), step);
}

TEST(GradientSteps, StepsOfPairs) {
  Random random(1);
  for (const std::vector<i32>& counts : std::vector<std::vector<i32>>{
           {0}, {1}, {64}, {65, 0, 0, 3}, {0, 0, 700, 1, 0}, {33, 129, 64, 63, 1, 0, 0, 5000}}) {
    const Pairs pairs = random_pairs(random, counts, 100, 100);
    for (const i64 more : {0, 77}) {
      const i32 count = static_cast<i32>(pairs.count());
      expect_steps(Steps(pairs, more, more > 0 ? &count : nullptr), counts);
    }
  }
  // A count that the list cannot have is 0.
  const Pairs pairs = random_pairs(random, {5, 6}, 10, 10);
  for (const i32 count : {-1, 12}) {
    EXPECT_EQ(Steps(pairs, 0, &count).steps(), 0);
  }
}

/// Lists with fewer offsets than a warp has lanes, as many, and more.
TEST(GradientSteps, StepsOfSeveralLists) {
  Random random(11);
  std::vector<std::vector<i32>> counts;
  std::vector<Pairs> lists;
  for (const std::size_t volume : {1, 27, 31, 32, 33, 64, 343}) {
    std::vector<i32>& of_list = counts.emplace_back(volume);
    for (i32& count : of_list) count = random.below(4) == 0 ? 0 : static_cast<i32>(random.below(300));
    lists.push_back(random_pairs(random, of_list, 100, 100));
  }
  const std::vector<Steps> steps = Steps::of_lists(lists);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    SCOPED_TRACE(testing::Message() << counts[i].size() << " offsets");
    expect_steps(steps[i], counts[i]);
  }
}

/// Whatever order the offsets of a list have, the pairs of an offset are in the list, and no pair is in two
/// offsets.
TEST(GradientSteps, StepsOfAListThatDoesNotAscend) {
  Random random(9);
  for (int repeat = 0; repeat < 50; ++repeat) {
    Pairs pairs{6, {}};
    for (int i = 0; i < 300; ++i) {
      pairs.list.insert(pairs.list.end(), {static_cast<i32>(random.below(8)) - 1, 0, 0});
    }
    // Half of the lists ascend, and end with padding.
    for (std::size_t i = 0; repeat % 2 == 0 && i < 300; ++i) {
      pairs.list[3 * i] = i < 200 ? static_cast<i32>(i / 40) : -1;
    }
    const Steps steps(pairs);
    ASSERT_GE(steps.first_pair[0], 0);
    ASSERT_LE(steps.first_pair.back(), pairs.count());
    for (std::size_t k = 0; k < 6; ++k) {
      const i32 count = steps.first_pair[k + 1] - steps.first_pair[k];
      ASSERT_GE(count, 0) << k;
      ASSERT_EQ(steps.first_step[k + 1] - steps.first_step[k], (count + kStepPairs - 1) / kStepPairs) << k;
    }
  }
}

TEST(GradientSteps, EveryStepIsInOnePart) {
  for (const i64 steps : {1, 2, 3, 7, 255, 256, 257, 513, 100000}) {
    for (const i64 wanted : {1, 5, 396}) {
      const i64 parts = parts_of(steps, wanted);
      ASSERT_EQ(parts, std::min((steps + 1) / 2, wanted));
      ASSERT_EQ(first_step_of_part(0, parts, steps), 0);
      ASSERT_EQ(first_step_of_part(parts, parts, steps), steps);
      for (i64 part = 0; part < parts; ++part) {
        const i64 first = first_step_of_part(part, parts, steps);
        const i64 end = first_step_of_part(part + 1, parts, steps);
        ASSERT_GT(end, first);
        for (i64 step = first; step < end; ++step) ASSERT_EQ(part_of_step(step, parts, steps), part);
      }
    }
  }
}

/// No thread of add_parts adds many slots, and no more blocks have work than most_add_blocks() says.
TEST(GradientSteps, ThreadsOfAWeight) {
  for (i32 slots = 0; slots < 1000; ++slots) {
    const i32 threads = 1 << add_bits_of(slots);
    ASSERT_LE(threads, std::max(1, slots / 4));
    if (slots <= kPartsAtOnce << kMostAddBits) {
      ASSERT_LE(slots, threads * kPartsAtOnce);
    }
  }
  Random random(13);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const AddPartsSpec spec{.vector = repeat % 2 == 0 ? 4 : 1};
    const i64 volume = 1 + random.below(40), wanted = 1 + random.below(600),
              weights = 4 * (1 + random.below(5000));
    std::vector<i64> first_step(1);
    for (i64 k = 0; k < volume; ++k) {
      const i64 most = random.below(8) == 0 ? 3000 : 30;
      first_step.push_back(first_step.back() + random.below(2) * random.below(static_cast<u64>(most)));
    }
    const i64 steps = first_step.back(), parts = parts_of(steps, wanted), vectors = weights / spec.vector;
    i64 blocks = 0;
    for (std::size_t k = 0; k + 1 < first_step.size(); ++k) {
      const i32 slots = parts_of_offset(first_step[k], first_step[k + 1], parts, steps).count;
      const i64 columns = spec.threads >> add_bits_of(slots);
      blocks += (vectors + columns - 1) / columns;
    }
    ASSERT_LE(blocks, most_add_blocks(spec, volume, weights, wanted))
        << volume << " " << wanted << " " << weights;
  }
}

}  // namespace
}  // namespace minuet
