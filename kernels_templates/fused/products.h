// This file multiplies the weights and the input rows of one step of the reduction, by warps or by
// warpgroups.
#pragma once

#include "kernels_templates/core/mma.h"
#include "kernels_templates/core/wgmma.h"
#include "kernels_templates/fused/input_steps.h"
#include "kernels_templates/fused/thread_place.h"
#include "kernels_templates/fused/weight_ring.h"

namespace minuet {

/// Computes sum += a * b. For fp32, it splits each factor into two tf32 numbers, computes the three largest
/// of the four products, and adds them to `sum` by ordinary additions, because the additions of tensor cores
/// truncate.
template <FusedSpec S>
MINUET_DEVICE void multiply(typename FusedLane<S>::Sum (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  if constexpr (S.io == DType::F32) {
    u32 high_a[4], low_a[4], high_b[2], low_b[2];
    split_to_tf32(a, high_a, low_a);
    split_to_tf32(b, high_b, low_b);
    float part[4] = {};
    mma<DType::TF32>(part, low_a, high_b);
    mma<DType::TF32>(part, high_a, low_b);
    mma<DType::TF32>(part, high_a, high_b);
    MINUET_UNROLL
    for (i32 i = 0; i < 4; ++i) sum[i] += part[i];
  } else {
    mma<S.io>(sum, a, b);
  }
}

/// Multiplies the weights of a step with the input of the query tiles [First, First + Count).
template <FusedSpec S, i32 First, i32 Count>
MINUET_DEVICE void multiply_tiles(const WeightRing<S>& ring, const InputStep<S>& input, FusedSums<S>& sums) {
  constexpr i32 kTiles = FusedLane<S>::kTiles;
  MINUET_UNROLL
  for (i32 granule = 0; granule < S.step / fused_granule(S.io); ++granule) {
    u32 b[Count][2];
    MINUET_UNROLL
    for (i32 n = 0; n < Count; ++n) {
      input.operand(First + n, granule, b[n]);
      if constexpr (S.io == DType::TF32) b[n][0] = round_to_tf32(b[n][0]), b[n][1] = round_to_tf32(b[n][1]);
    }
    MINUET_UNROLL
    for (i32 tile = 0; tile < kTiles; ++tile) {
      const Vector<16> a = ring.load(granule * kTiles + tile);
      MINUET_UNROLL
      for (i32 n = 0; n < Count; ++n) multiply<S>(sums[tile * S.row_tiles + First + n], a.words, b[n]);
    }
  }
}

template <FusedSpec S, i32 Tile>
MINUET_DEVICE void multiply_hits(const WeightRing<S>& ring, const InputStep<S>& input, FusedSums<S>& sums) {
  if ((input.hits >> Tile & 1) != 0) multiply_tiles<S, Tile, 1>(ring, input, sums);
  if constexpr (Tile + 1 < S.row_tiles) multiply_hits<S, Tile + 1>(ring, input, sums);
}

/// Multiplies the tiles of queries that have an input row at the step's offset. A branch covers all products
/// of a step or of a tile, because the compiler would make the warp converge before each mma() that has a
/// condition of its own.
template <FusedSpec S>
MINUET_DEVICE void multiply_step(const WeightRing<S>& ring, const InputStep<S>& input, FusedSums<S>& sums) {
  if (!fused_skips_tiles(S) || input.hits == (1u << S.row_tiles) - 1) {
    multiply_tiles<S, 0, S.row_tiles>(ring, input, sums);
  } else {
    multiply_hits<S, 0>(ring, input, sums);
  }
}

template <FusedSpec S>
MINUET_DEVICE void take_step(WeightRing<S>& ring, i32 number, InputSteps<S>& inputs, InputStep<S>& step,
                             FusedSums<S>& sums) {
  ring.acquire(number, step.step);
  multiply_step<S>(ring, step, sums);
  ring.release(number);
  inputs.start(step);
  if constexpr (S.weights == WeightRoad::BulkRefill) ring.refill(number);
}

/// Computes the products of one step with a warpgroup. Making the operands a[] waits for the loads of the
/// step's input and frees their registers. The next loads therefore start either right after that
/// (early_loads) or while the products run. They may belong to tile `next` (InputSteps::start()).
template <FusedSpec S, class Ring>
MINUET_DEVICE void take_warpgroup_step(Ring& ring, i32 number, InputSteps<S>& inputs, InputStep<S>& step,
                                       FusedSums<S>& sums, i32 next = -1) {
  constexpr i32 kGranules = S.step / fused_granule(S.io), kPieceBytes = S.columns * kWgmmaPiece;
  // Only images of 8-bit elements have half pieces.
  constexpr bool kEndsWithHalf = kGranules % 2 == 1;
  static_assert(!kEndsWithHalf || is_integer(S.io), "steps of whole pieces");
  const i32 image_step = S.weights == WeightRoad::Resident ? step.step : 0;
  u32 a[kGranules][4];
  MINUET_UNROLL
  for (i32 granule = 0; granule < kGranules; ++granule) {
    MINUET_UNROLL
    for (i32 tile = 0; tile < 2; ++tile) {
      u32 words[2];
      step.operand(tile, granule, words);
      MINUET_UNROLL
      for (i32 i = 0; i < 2; ++i)
        a[granule][i * 2 + tile] = S.io == DType::TF32 ? round_to_tf32(words[i]) : words[i];
    }
  }
  if constexpr (S.early_loads) inputs.start(step, next);
  ring.acquire(number, image_step);
  wgmma_fence();
  const u64 weights = wgmma_operand(ring.stage());
  MINUET_UNROLL
  for (i32 granule = 0; granule < kGranules - (kEndsWithHalf ? 1 : 0); ++granule)
    wgmma<S.io>(sums, a[granule],
                wgmma_operand_behind(weights, granule / 2 * kPieceBytes + granule % 2 * (kWgmmaPiece / 2)));
  if constexpr (kEndsWithHalf) {
    wgmma<S.io>(sums, a[kGranules - 1], wgmma_operand_of_half(ring.stage() + kGranules / 2 * kPieceBytes));
  }
  wgmma_commit();
  if constexpr (!S.early_loads) inputs.start(step, next);
  if constexpr (S.weights == WeightRoad::BulkRefill) ring.refill(number);
  wgmma_wait();
  ring.release(number);
}

}  // namespace minuet
