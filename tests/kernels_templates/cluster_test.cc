// Clusters, mbarriers and bulk copies in the shim: a kernel that uses them all is right in every order, and
// each fault in it is noticed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "tests/kernels_templates/gemm_runs.h"
#include "tests/support/shim/sanitizers.h"

namespace minuet {
namespace {

using testing::HasSubstr;

template <ClusterGemmSpec S>
void expect_right(u64 seed, i32 rows, i32 steps) {
  const GemmProblem problem = random_gemm(seed, S.io, rows, S.columns, steps, S.step_words);
  for (const Turns& turns : all_turns()) {
    EXPECT_LE(worst_error(problem, run_cluster_gemm<S>(problem, turns)), kGemmBound)
        << text_of(turns) << ", problem " << seed;
  }
}

TEST(ClusterGemm, RightInEveryOrderAndType) {
  expect_right<ClusterGemmSpec{.io = DType::F16}>(1, 40, 11);
  expect_right<ClusterGemmSpec{.io = DType::BF16, .warps = 1, .columns = 16, .stages = 2}>(2, 16, 9);
  expect_right<ClusterGemmSpec{.io = DType::TF32, .step_words = 24}>(3, 33, 10);
  expect_right<ClusterGemmSpec{.io = DType::F16, .columns = 64, .cluster = 4}>(4, 32, 14);
  expect_right<ClusterGemmSpec{.io = DType::F16, .columns = 8, .cluster = 1}>(5, 70, 5);
  expect_right<ClusterGemmSpec{.io = DType::BF16}>(6, 5, 1);  // fewer steps than blocks
}

TEST(ClusterGemm, MoreSharedMemoryThanStaticArraysMayHave) {
  constexpr ClusterGemmSpec kLarge{
      .io = DType::F16, .warps = 4, .columns = 64, .step_words = 64, .stages = 4};
  static_assert(gemm_shared_bytes(kLarge) > 48 * 1024);
  expect_right<kLarge>(7, 64, 3);
}

TEST(ClusterGemm, TheSameBitsInEveryOrder) {
  constexpr ClusterGemmSpec kSpec{.columns = 32, .cluster = 4};
  const GemmProblem problem = random_gemm(8, kSpec.io, 32, kSpec.columns, 13, kSpec.step_words);
  const std::vector<float> first = run_cluster_gemm<kSpec>(problem, all_turns()[0]);
  for (const Turns& turns : all_turns()) {
    EXPECT_EQ(run_cluster_gemm<kSpec>(problem, turns), first) << text_of(turns);
  }
}

template <GemmFault F>
void expect_found(const char* name, const char* message) {
  constexpr ClusterGemmSpec kSpec{.columns = 16, .fault = F};
  const GemmProblem problem = random_gemm(9, kSpec.io, 96, kSpec.columns, 12, kSpec.step_words);
  std::string thrown;
  const int found = times_found(
      problem, [&](const Turns& turns) { return run_cluster_gemm<kSpec>(problem, turns); }, &thrown);
  std::cout << name << ": found in " << found << " of " << all_turns().size() << " orders\n";
  EXPECT_GT(found, 0) << name;
  EXPECT_THAT(thrown, HasSubstr(message)) << name;
}
#define EXPECT_FOUND(fault, message) expect_found<GemmFault::fault>(#fault, message)

TEST(ClusterGemm, NothingIsFoundInAWholeKernel) {
  constexpr ClusterGemmSpec kSpec{.columns = 16};
  const GemmProblem problem = random_gemm(9, kSpec.io, 96, kSpec.columns, 12, kSpec.step_words);
  EXPECT_EQ(times_found(problem, [&](const Turns& turns) { return run_cluster_gemm<kSpec>(problem, turns); }),
            0);
}

TEST(ClusterGemm, AWaitThatIsMissingOrWrongIsFound) {
  EXPECT_FOUND(NoFullWait, "");
  EXPECT_FOUND(NoEmptyWait, "");
  EXPECT_FOUND(WrongParity, "");
  EXPECT_FOUND(NoArrival, "threads wait at an mbarrier");
  EXPECT_FOUND(TooManyBytes, "threads wait at an mbarrier");
}

TEST(ClusterGemm, ABarrierThatIsMissingIsFound) {
  EXPECT_FOUND(NoInitBarrier, "there is no mbarrier");
  EXPECT_FOUND(NoInitFence, "needs a fence");
  EXPECT_FOUND(NoBarrierBeforeExchange, "may not run yet");
  EXPECT_FOUND(NoBarrierAfterExchange, "has ended");
}

TEST(ClusterGemm, AThreadThatIsNotThereAndACopyOffItsAlignmentAreFound) {
  EXPECT_FOUND(DivergentMma, "different operations");
  EXPECT_FOUND(UnalignedCopy, "aligned to 16 bytes");
}

// ---- each rule by itself --------------------------------------------------------------------------------

struct Output {
  i32* out;
};

std::string error_of(void (*kernel)(const Output&), shim::Grid grid, i32* out = nullptr) {
  try {
    shim::launch(kernel, Output{out}, grid);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

constexpr shim::Grid kPair{.blocks = 2, .threads = 32, .cluster = 2, .shared_bytes = 64};

/// Rank, size, and the neighbour's word behind a barrier.
void pass_on(const Output& p) {
  auto* word = reinterpret_cast<i32*>(dynamic_shared()) + threadIdx.x;
  *word = static_cast<i32>(100 * blockIdx.x + threadIdx.x);
  cluster_sync();
  const u32 next = (cluster_rank() + 1) % cluster_size();
  p.out[blockIdx.x * blockDim.x + threadIdx.x] = *map_shared(word, next);
  cluster_arrive();
  cluster_wait();
}

TEST(Cluster, BlocksReadEachOthersSharedMemory) {
  for (int variant = 0; variant < 3; ++variant) {
    std::vector<i32> out = poisoned<i32>(6 * 40);
    const shim::Grid grid{.blocks = 6,
                          .threads = 40,
                          .order = static_cast<shim::Order>(variant),
                          .cluster = 3,
                          .shared_bytes = 160};
    EXPECT_EQ(error_of(&pass_on, grid, out.data()), "");
    for (i32 i = 0; i < 6 * 40; ++i) {
      const i32 block = i / 40;
      EXPECT_EQ(out[i], 100 * (block / 3 * 3 + (block + 1) % 3) + i % 40);
    }
  }
}

void end_early(const Output&) {
  cluster_sync();
  if (cluster_rank() == 1) return;
  __syncthreads();
  *map_shared(dynamic_shared(), 1) = 1;
}
void arrive_only_once(const Output&) {
  if (threadIdx.x != 5) cluster_arrive();
  cluster_wait();
}
void leave_one_out(const Output&) {
  if (threadIdx.x != 5) cluster_sync();
}
void use_static_memory(const Output& p) {
  __shared__ i32 word;
  word = p.out == nullptr;
  if (word == 2) __syncthreads();
}
void write_beside(const Output&) {
  if (threadIdx.x == 0) *reinterpret_cast<volatile char*>(dynamic_shared() + 64) = 1;
}
void map_a_local(const Output&) {
  cluster_sync();
  i32 local = 0;
  *map_shared(&local, 1) = 1;
}

TEST(Cluster, WhatAGpuWouldNotForgiveIsAnError) {
  EXPECT_THAT(error_of(&end_early, kPair), HasSubstr("has ended"));
  EXPECT_THAT(error_of(&arrive_only_once, kPair), HasSubstr("has not arrived"));
  EXPECT_THAT(error_of(&leave_one_out, kPair),
              HasSubstr("1 threads have ended, 31 threads wait at the cluster's"));
  EXPECT_THAT(error_of(&use_static_memory, kPair), HasSubstr("static shared memory in a cluster"));
  EXPECT_THAT(error_of(&map_a_local, kPair), HasSubstr("own dynamic shared memory"));
  EXPECT_THAT(error_of(&pass_on, {.blocks = 3, .threads = 1, .cluster = 2}), HasSubstr("refuse"));
  EXPECT_THAT(error_of(&pass_on, {.blocks = 1, .shared_bytes = 300000}), HasSubstr("refuse"));
#ifndef MINUET_SHIM_ASAN  // which ends the process where the write is
  EXPECT_THAT(error_of(&write_beside, kPair), HasSubstr("beside its dynamic shared memory"));
#else
  EXPECT_DEATH(error_of(&write_beside, kPair), "use-after-poison");
#endif
}

/// Every thread of the pair arrives at rank 0's barrier; what they wrote before is seen behind it.
void gather_at_first(const Output& p) {
  auto* barrier = reinterpret_cast<MBarrier*>(dynamic_shared());
  auto* words = reinterpret_cast<i32*>(dynamic_shared() + 8);
  if (threadIdx.x == 0) {
    mbarrier_init(barrier, 64);
    mbarrier_init_fence();
  }
  cluster_sync();
  for (i32 phase = 0; phase < 3; ++phase) {
    const i32 number = static_cast<i32>(32 * cluster_rank() + threadIdx.x);
    if (number % 8 == phase) map_shared(words, 0)[number / 8] = phase + number;
    mbarrier_arrive_remote(barrier, 0);
    if (cluster_rank() == 0) {
      while (!mbarrier_try_wait(barrier, static_cast<u32>(phase) & 1u)) {
      }
      if (threadIdx.x < 8) p.out[8 * phase + threadIdx.x] = words[threadIdx.x];
    }
    cluster_sync();
  }
}

TEST(MBarrier, OtherBlocksArrive) {
  for (int variant = 0; variant < 3; ++variant) {
    std::vector<i32> out = poisoned<i32>(24);
    shim::Grid grid = kPair;
    grid.order = static_cast<shim::Order>(variant);
    EXPECT_EQ(error_of(&gather_at_first, grid, out.data()), "");
    for (i32 i = 0; i < 24; ++i) EXPECT_EQ(out[i], i / 8 + i % 8 * 8 + i / 8);
  }
}

template <int Case>
void misuse_mbarrier(const Output& p) {
  auto* barrier = reinterpret_cast<MBarrier*>(dynamic_shared());
  if (Case == 0) mbarrier_arrive(barrier);
  mbarrier_init(barrier, 1);
  mbarrier_init_fence();
  if (Case == 1) mbarrier_init(barrier, 1);
  if (Case == 2) barrier->state += 1;
  if (Case == 3) mbarrier_wait(barrier, 0);
  if (Case == 4) bulk_copy(dynamic_shared() + 16, p.out, 24, barrier);
  if (Case == 5) bulk_copy(dynamic_shared() + 16, p.out, 64, barrier);
  if (Case == 6) bulk_copy(dynamic_shared() + 16, p.out, 16, barrier);
  if (Case == 7) mbarrier_invalidate(barrier);
  if (Case == 11 || Case == 12) load_shared_vector(dynamic_shared() + 16);
  if (Case == 12) bulk_copy_fence();
  while (Case == 8 && !mbarrier_try_wait(barrier, 0)) {
  }
  mbarrier_arrive_expect(barrier, Case == 9 ? 1u << 20 : 0);
  mbarrier_wait(barrier, 0);
}

TEST(MBarrier, MisuseIsAnError) {
  alignas(16) i32 source[16] = {};
  const shim::Grid grid{.shared_bytes = 64};
  EXPECT_THAT(error_of(&misuse_mbarrier<0>, grid, source), HasSubstr("none yet"));
  EXPECT_THAT(error_of(&misuse_mbarrier<1>, grid, source), HasSubstr("twice"));
  EXPECT_THAT(error_of(&misuse_mbarrier<2>, grid, source), HasSubstr("overwritten"));
  EXPECT_THAT(error_of(&misuse_mbarrier<3>, grid, source), HasSubstr("1 threads wait at an mbarrier"));
  EXPECT_THAT(error_of(&misuse_mbarrier<4>, grid, source), HasSubstr("multiple of 16"));
  EXPECT_THAT(error_of(&misuse_mbarrier<5>, grid, source), HasSubstr("out of the block's shared memory"));
  EXPECT_THAT(error_of(&misuse_mbarrier<6>, grid, source), HasSubstr("ended while a bulk copy"));
  EXPECT_THAT(error_of(&misuse_mbarrier<7>, grid, source), HasSubstr("there is no mbarrier"));
  EXPECT_THAT(error_of(&misuse_mbarrier<8>, grid, source), HasSubstr("poll an mbarrier"));
  EXPECT_THAT(error_of(&misuse_mbarrier<9>, grid, source), HasSubstr("more bytes"));
  EXPECT_EQ(error_of(&misuse_mbarrier<10>, grid, source), "");
  EXPECT_THAT(error_of(&misuse_mbarrier<11>, grid, source), HasSubstr("need a fence"));
  EXPECT_EQ(error_of(&misuse_mbarrier<12>, grid, source), "");
}

/// One copy, of which the thread reads a word before the wait, and one behind it.
void read_early(const Output& p) {
  auto* barrier = reinterpret_cast<MBarrier*>(dynamic_shared());
  auto* word = reinterpret_cast<i32*>(dynamic_shared() + 16);
  mbarrier_init(barrier, 1);
  mbarrier_init_fence();
  *word = 5;
  mbarrier_arrive_expect(barrier, 16);
  bulk_copy(word, p.out, 16, barrier);
  const i32 early = *word;
  mbarrier_wait(barrier, 0);
  p.out[1] = early;
  p.out[2] = *word;
}

TEST(BulkCopy, NothingIsThereBeforeTheWait) {
  alignas(16) i32 words[4] = {77, 0, 0, 0};
  EXPECT_EQ(error_of(&read_early, {.shared_bytes = 32}, words), "");
  EXPECT_EQ(words[1], -1);
  EXPECT_EQ(words[2], 77);
}

}  // namespace
}  // namespace minuet
