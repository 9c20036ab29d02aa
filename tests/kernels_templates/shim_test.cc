// The shim itself: barriers, votes, shared memory, and that it notices a diverging barrier.
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/kernels_templates/testing.h"

namespace minuet {
namespace {

struct ReverseParams {
  const i32* input;
  i32* output;
  i32* votes;
};
void reverse_block(const ReverseParams p) {
  __shared__ i32 shared[64];
  const i32 thread = static_cast<i32>(threadIdx.x), base = static_cast<i32>(blockIdx.x * blockDim.x);
  shared[thread] = p.input[base + thread];
  __syncthreads();
  p.output[base + thread] = shared[blockDim.x - 1 - threadIdx.x];
  p.votes[base + thread] = __syncthreads_count(thread % 3 == 0);
}

TEST(Shim, BarriersSeparateWritesFromReadsInEveryOrder) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    shim::Grid grid = shim::small_grid(variant, 64);
    std::vector<i32> input, output = poisoned<i32>(64 * 5), votes = poisoned<i32>(64 * 5);
    for (i32 i = 0; i < 64 * 5; ++i) input.push_back(i);
    shim::launch(&reverse_block, ReverseParams{input.data(), output.data(), votes.data()}, grid);
    for (i32 i = 0; i < 64 * grid.blocks; ++i) {
      EXPECT_EQ(output[i], i / 64 * 64 + 63 - i % 64);
      EXPECT_EQ(votes[i], 22);
    }
    if (grid.blocks < 5) {
      EXPECT_EQ(output[64 * grid.blocks], poison<i32>());
    }
  }
}

struct NoParams {};
void diverge(const NoParams) {
  if (threadIdx.x != 3) __syncthreads();
}

TEST(Shim, DivergingBarrierIsAnError) {
  EXPECT_THROW(shim::launch(&diverge, NoParams{}, {.blocks = 1, .threads = 8}), std::logic_error);
  // And the next launch works.
  std::vector<i32> input(64, 7), output = poisoned<i32>(64), votes = poisoned<i32>(64);
  shim::launch(&reverse_block, ReverseParams{input.data(), output.data(), votes.data()},
               {.blocks = 1, .threads = 64});
  EXPECT_EQ(output, input);
}

}  // namespace
}  // namespace minuet
