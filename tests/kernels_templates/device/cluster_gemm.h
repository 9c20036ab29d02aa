// A matrix product over a cluster, from sm_90 on: a's rows straight into registers, b through a ring of
// shared memory that thread 0 fills with bulk copies, and at the end every block sends its sums to the block
// whose columns they are, which adds them in the order of the ranks.
#pragma once

#include "kernels_templates/core/bulk_copy.h"
#include "kernels_templates/core/cluster.h"
#include "kernels_templates/core/dynamic_shared.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/mma.h"
#include "tests/kernels_templates/device/gemm_kernels.h"

namespace minuet {

template <ClusterGemmSpec S>
struct GemmRing {
  static constexpr i32 kTiles = S.columns / kMmaColumns;

  MBarrier* full;
  MBarrier* empty;
  unsigned char* stages;
  i32 first, steps;  // this block's are first, first + S.cluster and so on

  MINUET_DEVICE u32* stage(i32 step) const {
    return reinterpret_cast<u32*>(stages + step % S.stages * gemm_stage_bytes(S));
  }
  MINUET_DEVICE static u32 parity(i32 step) { return static_cast<u32>(step / S.stages % 2); }

  MINUET_DEVICE void initialise() const {
    for (i32 s = 0; s < S.stages; ++s) {
      mbarrier_init(full + s, 1);
      mbarrier_init(empty + s, S.fault == GemmFault::NoArrival ? S.warps + 1 : S.warps);
    }
    if (S.fault != GemmFault::NoInitFence) mbarrier_init_fence();
  }

  /// Brings a step, when the one that had its stage before has been read by all warps.
  MINUET_DEVICE void fill(const GemmParams& p, i32 step) const {
    if (step >= steps) return;
    const bool reused = step >= S.stages && S.fault != GemmFault::NoEmptyWait;
    if (reused) mbarrier_wait(empty + step % S.stages, parity(step - S.stages));
    const i64 words = S.columns * S.step_words;
    const u32* image = p.b + (first + step * S.cluster) * words;
    if (S.fault == GemmFault::UnalignedCopy) image += 2;
    const u32 bytes = gemm_stage_bytes(S);
    mbarrier_arrive_expect(full + step % S.stages, S.fault == GemmFault::TooManyBytes ? bytes + 16 : bytes);
    bulk_copy(stage(step), image, bytes, full + step % S.stages);
  }

  MINUET_DEVICE void wait(i32 step) const {
    if (S.fault == GemmFault::NoFullWait) return;
    mbarrier_wait(full + step % S.stages,
                  S.fault == GemmFault::WrongParity ? parity(step) ^ 1u : parity(step));
  }

  MINUET_DEVICE void release(i32 step) const {
    bulk_copy_fence();
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(empty + step % S.stages);
  }
};

/// Adds a step's products of 16 rows, of which this lane reads two.
template <ClusterGemmSpec S>
MINUET_DEVICE void multiply_step(const GemmParams& p, i32 row, i32 step, const u32* b_columns,
                                 float (*sums)[4]) {
  const i32 lane = static_cast<i32>(threadIdx.x % 32), word = lane % 4;
  const i64 row_words = static_cast<i64>(p.steps) * S.step_words;
  MINUET_UNROLL
  for (i32 first = 0; first < S.step_words; first += kMmaWords) {
    u32 a[4];
    MINUET_UNROLL
    for (i32 i = 0; i < 4; ++i) {
      const i32 r = row + i % 2 * 8;
      const i64 k = static_cast<i64>(step) * S.step_words + first + word + i / 2 * 4;
      a[i] = r < p.rows ? read_only(p.a + r * row_words + k) : 0u;
    }
    MINUET_UNROLL
    for (i32 tile = 0; tile < S.columns / kMmaColumns; ++tile) {
      const u32* column = b_columns + (tile * kMmaColumns + lane / 4) * S.step_words + first + word;
      const u32 b[2] = {column[0], column[4]};
      if (S.fault != GemmFault::DivergentMma || lane != 7) mma<S.io>(sums[tile], a, b);
    }
  }
}

/// Sends every block its columns' sums, and adds what came. sums[0], .. are then the rank's own tiles.
template <ClusterGemmSpec S>
MINUET_DEVICE void exchange_sums(float* received, u32 rank, float (*sums)[4]) {
  constexpr i32 kOwn = S.columns / kMmaColumns / S.cluster, kThreads = gemm_threads(S);
  const i32 thread = static_cast<i32>(threadIdx.x);
  // The others run by now, and have read the rings that the sums go to.
  if (S.fault != GemmFault::NoBarrierBeforeExchange) cluster_sync();
  MINUET_UNROLL
  for (i32 to = 0; to < S.cluster; ++to) {
    float* there = map_shared(received, static_cast<u32>(to));
    MINUET_UNROLL
    for (i32 tile = 0; tile < kOwn; ++tile) {
      float* place = there + ((static_cast<i32>(rank) * kOwn + tile) * kThreads + thread) * 4;
      for (i32 i = 0; i < 4; ++i) place[i] = sums[to * kOwn + tile][i];
    }
  }
  if (S.fault != GemmFault::NoBarrierAfterExchange) cluster_sync();
  MINUET_UNROLL
  for (i32 tile = 0; tile < kOwn; ++tile) {
    for (i32 i = 0; i < 4; ++i) {
      float sum = 0;
      for (i32 from = 0; from < S.cluster; ++from) {
        sum += received[((from * kOwn + tile) * kThreads + thread) * 4 + i];
      }
      sums[tile][i] = sum;
    }
  }
}

template <ClusterGemmSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(gemm_threads(S)) void cluster_gemm(MINUET_PARAMS(GemmParams) p) {
  constexpr i32 kTiles = S.columns / kMmaColumns, kOwn = kTiles / S.cluster;
  const u32 rank = cluster_rank();
  auto* barriers = reinterpret_cast<MBarrier*>(dynamic_shared());
  const i32 first = static_cast<i32>(rank), last = p.steps - 1;
  const GemmRing<S> ring{barriers, barriers + S.stages, dynamic_shared() + kGemmHeadBytes, first,
                         first > last ? 0 : (last - first) / S.cluster + 1};
  if (threadIdx.x == 0) ring.initialise();
  if (S.fault != GemmFault::NoInitBarrier) __syncthreads();

  if (threadIdx.x == 0) {
    for (i32 step = 0; step + 1 < S.stages; ++step) ring.fill(p, step);
  }
  const i32 lane = static_cast<i32>(threadIdx.x % 32),
            tile_of_rows = static_cast<i32>(blockIdx.x) / S.cluster;
  const i32 row = tile_of_rows * gemm_tile_rows(S) + static_cast<i32>(threadIdx.x / 32) * kMmaRows + lane / 4;
  float sums[kTiles][4] = {};
  for (i32 step = 0; step < ring.steps; ++step) {
    if (threadIdx.x == 0) ring.fill(p, step + S.stages - 1);
    ring.wait(step);
    __syncwarp();
    multiply_step<S>(p, row, first + step * S.cluster, ring.stage(step), sums);
    ring.release(step);
  }

  exchange_sums<S>(reinterpret_cast<float*>(ring.stages), rank, sums);
  MINUET_UNROLL
  for (i32 tile = 0; tile < kOwn; ++tile) {
    const i32 column = (first * kOwn + tile) * kMmaColumns + lane % 4 * 2;
    for (i32 i = 0; i < 4; ++i) {
      const i32 r = row + i / 2 * 8;
      if (r < p.rows) p.out[static_cast<i64>(r) * S.columns + column + i % 2] = sums[tile][i];
    }
  }
}

}  // namespace minuet
