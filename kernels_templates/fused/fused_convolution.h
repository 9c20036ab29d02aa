// A whole convolution: output[q] = epilogue(sum over offsets k of input[rows[k][q]] * weights[k]), on tensor
// cores, all sums in fp32 registers, each output written once.
//
// A warp makes 8 * row_tiles queries by `columns` output channels. 16 bytes of an input row are fragments as
// they come from memory, so no input goes through shared memory: of mma() queries are the columns, and
// channels the rows; of wgmma() queries are the rows. A warp, or a warpgroup, passes over offsets that none
// of its queries has; the block's weights come stage by stage. Warps that share queries take the steps in
// turn, blocks of a cluster have some offsets each, and their sums are added at the end, in order.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/fused/finish.h"
#include "kernels_templates/fused/products.h"
#include "kernels_templates/fused/shares.h"

namespace minuet {

/// Where step 0 is, or, of a shortcut, would be.
template <FusedSpec S>
MINUET_DEVICE const char* image_of_block(const FusedParams& p, const FusedPlace<S>& place) {
  constexpr i32 kParts = FusedDepth<S>::kParts;
  const i64 step =
      place.one_of(place.column_block * fused_steps(S), place.column_block * kParts - S.volume / 2 * kParts);
  return static_cast<const char*>(place.one_of(p.weights, p.shortcut.weights)) + step * fused_stage_bytes(S);
}

/// All steps of the warp's share, or all copies of them.
template <FusedSpec S>
MINUET_DEVICE void sum_steps(const FusedParams& p, const FusedPlace<S>& place, const FusedMasks<S>& masks,
                             const i32 (&columns)[S.row_tiles], FusedSums<S>& sums) {
  StepWalk<S> walk(masks);
  WeightRing<S> ring(image_of_block<S>(p, place), walk);
  // By warps that have loads to start, too: these first.
  constexpr bool kFillsLast = S.weights == WeightRoad::BulkRefill;
  if constexpr (!kFillsLast) ring.fill();
  if (place.share == S.split) return;
  const i32 end = ring.end(walk.count());
  walk.advance(place.share);
  InputSteps<S> inputs(p, walk, place.share, columns);
  if constexpr (kFillsLast) ring.fill();
  InputStep<S> steps[S.prefetch];
  MINUET_UNROLL
  for (i32 i = 0; i < S.prefetch; ++i) inputs.start(steps[i]);
  i32 number = place.share;
  for (bool more = true; more;) {
    MINUET_UNROLL
    for (i32 i = 0; i < S.prefetch; ++i) {
      if (steps[i].number < 0) more = false;
      if (!more) break;
      if constexpr (S.weights != WeightRoad::Cached) {
        for (; number < steps[i].number; number += S.split) ring.pass(number);
      }
      if constexpr (S.unit == MmaUnit::Warpgroup) {
        take_warpgroup_step<S>(ring, number, inputs, steps[i], sums);
      } else {
        take_step<S>(ring, number, inputs, steps[i], sums);
      }
      number += S.split;
    }
  }
  for (; number < end; number += S.split) ring.pass(number);
  ring.finish();
}

template <FusedSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(fused_threads(S),
                                   S.blocks) void fused_convolution(MINUET_PARAMS(FusedParams) p) {
  if constexpr (S.programmatic) {
    wait_for_last_launch();
    allow_next_launch();
  }
  const FusedPlace<S> place(p);
  i32 columns[S.row_tiles];
  FusedMasks<S> masks = find_queries<S>(p, place, columns);
  if (i64{place.block} >= place.count && i64{place.block} >= p.padded_rows) return;
  WeightRing<S>::prepare();
  if constexpr (FusedMasks<S>::kOfBlock) __syncthreads();
  masks.gather();
  FusedSums<S> sums = {};
  // Steps of several offsets are taken whatever the masks say, and of no query there are no rows to look at.
  if (!FusedDepth<S>::kFolds || place.count > 0) sum_steps<S>(p, place, masks, columns, sums);
  const FusedPlace<S> same(p);  // made again: registers are scarce while products run
  if constexpr (S.split > 1) add_warps<S>(same, sums);
  if constexpr (S.cluster > 1) {
    if (same.rank >= 0) add_blocks<S>(same, sums);
  }
  if (same.share == 0) finish<S>(p, same, sums);
}

}  // namespace minuet
