// A matrix product from sm_80 on: steps of a and b brought to shared memory by all threads' asynchronous
// copies, some steps ahead, and read with ldmatrix.
#pragma once

#include "kernels_templates/core/async_copy.h"
#include "kernels_templates/core/dynamic_shared.h"
#include "kernels_templates/core/ldmatrix.h"
#include "kernels_templates/core/mma.h"
#include "tests/kernels_templates/device/gemm_kernels.h"

namespace minuet {

/// One group of copies, an empty one past the last step: a stage's rows are the tile's rows of a, then b's
/// columns.
template <StagedGemmSpec S>
MINUET_DEVICE void copy_step(const GemmParams& p, i32 step, u32* stage) {
  constexpr i32 kPieces = S.step_words / 4, kRows = gemm_tile_rows(S);
  const i32 first_row = static_cast<i32>(blockIdx.x) * kRows;
  for (i32 i = static_cast<i32>(threadIdx.x); step < p.steps && i < (kRows + S.columns) * kPieces;
       i += gemm_threads(S)) {
    const i32 row = i / kPieces, word = i % kPieces * 4;
    u32* to = stage + row * gemm_row_words(S) + word;
    if (row < kRows) {
      const i64 from = (static_cast<i64>(first_row + row) * p.steps + step) * S.step_words + word;
      async_copy_if<16>(first_row + row < p.rows, to, p.a + from);
    } else {
      async_copy<16>(to, p.b + (static_cast<i64>(step) * S.columns + row - kRows) * S.step_words + word);
    }
  }
  async_copy_commit();
}

template <StagedGemmSpec S>
MINUET_DEVICE void multiply_stage(const u32* stage, float (*sums)[4]) {
  constexpr i32 kWords = gemm_row_words(S);
  const i32 lane = static_cast<i32>(threadIdx.x % 32), warp = static_cast<i32>(threadIdx.x / 32);
  const u32* a_row = stage + (warp * kMmaRows + lane % 16) * kWords + lane / 16 * 4;
  const u32* b_row = stage + (gemm_tile_rows(S) + lane % 8) * kWords + lane / 8 % 2 * 4;
  MINUET_UNROLL
  for (i32 first = 0; first < S.step_words; first += kMmaWords) {
    u32 a[4] = {};
    if (S.fault != GemmFault::DivergentLdmatrix || lane != 30) ldmatrix(a, a_row + first);
    MINUET_UNROLL
    for (i32 tile = 0; tile < S.columns / kMmaColumns; ++tile) {
      u32 b[2];
      ldmatrix(b, b_row + tile * kMmaColumns * kWords + first);
      mma<S.io>(sums[tile], a, b);
    }
  }
}

template <StagedGemmSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(gemm_threads(S)) void staged_gemm(MINUET_PARAMS(GemmParams) p) {
  constexpr i32 kTiles = S.columns / kMmaColumns;
  auto* ring = reinterpret_cast<u32*>(dynamic_shared());
  for (i32 step = 0; step + 1 < S.stages; ++step) copy_step<S>(p, step, ring + step * gemm_stage_words(S));
  float sums[kTiles][4] = {};
  for (i32 step = 0; step < p.steps; ++step) {
    if (S.fault != GemmFault::NoCopyWait) async_copy_wait<S.stages - 2>();
    // Behind it, everybody's copies of this step are there, and everybody has read the step before.
    if (S.fault != GemmFault::NoBlockBarrier) __syncthreads();
    const i32 next = step + S.stages - 1;
    copy_step<S>(p, next, ring + next % S.stages * gemm_stage_words(S));
    multiply_stage<S>(ring + step % S.stages * gemm_stage_words(S), sums);
  }
  const i32 lane = static_cast<i32>(threadIdx.x % 32);
  const i32 row =
      (static_cast<i32>(blockIdx.x) * S.warps + static_cast<i32>(threadIdx.x / 32)) * kMmaRows + lane / 4;
  MINUET_UNROLL
  for (i32 tile = 0; tile < kTiles; ++tile) {
    for (i32 i = 0; i < 4; ++i) {
      const i32 r = row + i / 2 * 8, column = tile * kMmaColumns + lane % 4 * 2 + i % 2;
      if (r < p.rows) p.out[static_cast<i64>(r) * S.columns + column] = sums[tile][i];
    }
  }
}

}  // namespace minuet
