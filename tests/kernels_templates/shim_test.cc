// The shim itself: barriers, votes, shared memory, and that it notices a diverging barrier.
#include <gtest/gtest.h>

#include <mutex>
#include <stdexcept>
#include <thread>

#include "tests/kernels_templates/testing.h"
#include "tests/support/shim/sanitizers.h"

namespace minuet {
namespace {

struct ReverseParams {
  const i32* input;
  i32* output;
  i32* votes;
};
void reverse_block(const ReverseParams& p) {
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
void diverge(const NoParams&) {
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

/// What a new block finds in its dynamic shared memory, which it then writes.
struct SharedParams {
  i32* out;
};
void look_and_write(const SharedParams& p) {
  auto* words = static_cast<i32*>(shim::dynamic_shared());
  p.out[blockIdx.x * blockDim.x + threadIdx.x] = words[threadIdx.x];
  words[threadIdx.x] = 1;
}

TEST(Shim, EachBlockGetsPoisonedSharedMemoryOfTheLaunchesSize) {
  std::vector<i32> out(3 * 16, 0);
  shim::launch(&look_and_write, SharedParams{out.data()}, {.blocks = 3, .threads = 16, .shared_bytes = 64});
  EXPECT_EQ(out, std::vector<i32>(3 * 16, -1));
#ifdef MINUET_SHIM_ASAN
  EXPECT_DEATH(shim::launch(&look_and_write, SharedParams{out.data()}, {.threads = 16, .shared_bytes = 60}),
               "use-after-poison");
#endif
}

void where_it_lies(const SharedParams& p) {
  *p.out = static_cast<i32>(reinterpret_cast<std::uintptr_t>(shim::dynamic_shared()) % 256);
}
TEST(Shim, SharedMemoryIsNotAlignedToMoreThanItMustBe) {
  i32 out = -1;
  shim::launch(&where_it_lies, SharedParams{&out}, {.shared_bytes = 1});
  EXPECT_EQ(out, 128);
}

/// In the order in which they start.
struct OrderParams {
  std::vector<i32>* started;
};
void note_start(const OrderParams& p) {
  p.started->push_back(static_cast<i32>(blockIdx.x * 4 + threadIdx.x));
}

TEST(Shim, BlocksAndThreadsStartInTheOrderThatIsAskedFor) {
  const auto started = [](shim::Order order, u64 seed) {
    std::vector<i32> all;
    shim::launch(&note_start, OrderParams{&all}, {.blocks = 3, .threads = 4, .order = order, .seed = seed});
    return all;
  };
  const std::vector<i32> ascending = started(shim::Order::Ascending, 0);
  std::vector<i32> descending = started(shim::Order::Descending, 0),
                   shuffled = started(shim::Order::Shuffled, 0);
  EXPECT_EQ(started(shim::Order::Shuffled, 0), shuffled) << "a seed repeats";
  EXPECT_NE(started(shim::Order::Shuffled, 1), shuffled);
  EXPECT_TRUE(std::is_sorted(ascending.begin(), ascending.end()));
  std::reverse(descending.begin(), descending.end());
  EXPECT_EQ(descending, ascending);
  EXPECT_NE(shuffled, ascending);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, ascending);
}

TEST(Shim, AnErrorInAKernelComesOutOfTheLaunch) {
  const auto body = [] {
    __syncthreads();
    if (threadIdx.x == 1) throw std::runtime_error("of the kernel");
    __syncthreads();
  };
  EXPECT_THROW(shim::run_grid({.threads = 4}, body), std::runtime_error);
  EXPECT_THROW(shim::run_grid({.threads = 4}, [&] { shim::run_grid({}, body); }), std::logic_error)
      << "one at a time";
}

TEST(Shim, OneOsThreadAfterTheOther) {
  std::mutex one_at_a_time;
  std::vector<i32> input(64, 3);
  std::vector<std::vector<i32>> outputs(4, poisoned<i32>(64)), votes(4, poisoned<i32>(64));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int again = 0; again < 10; ++again) {
        const std::lock_guard<std::mutex> lock(one_at_a_time);
        shim::launch(&reverse_block, ReverseParams{input.data(), outputs[t].data(), votes[t].data()},
                     {.threads = 64});
        EXPECT_THROW(shim::launch(&diverge, NoParams{}, {.threads = 8}), std::logic_error);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<i32>& output : outputs) EXPECT_EQ(output, input);
}

}  // namespace
}  // namespace minuet
