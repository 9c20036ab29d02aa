// The kernel fused_convolution computes a whole convolution, output[q] = epilogue(sum over offsets k of
// input[rows[k][q]] * weights[k]), on tensor cores. All sums stay in fp32 registers, and each output is
// written once.
//
// A warp computes 8 * row_tiles queries by `columns` output channels. The 16 bytes that a lane loads of an
// input row already are operand fragments, so the input does not pass through shared memory. With mma()
// queries are the columns of a product and channels are the rows. With wgmma() queries are the rows. The
// reduction over offsets and input channels is divided into steps, and the block's weights arrive one step at
// a time. A warp or warpgroup skips the steps of offsets at which none of its queries has a neighbour. Warps
// that share queries take the steps in turn, and the blocks of a cluster take some offsets each. Their sums
// are added at the end in a fixed order.
#pragma once

#include "kernels_templates/fused/compute_tiles.h"
#include "kernels_templates/fused/shares.h"

namespace minuet {

/// Returns the address of step 0 of the weights of this block's output channels, in their image
/// (fused_image.h). The image of a shortcut holds only the middle offset, so for a shortcut this is where
/// step 0 would be if the image held all offsets.
template <FusedSpec S>
MINUET_DEVICE const char* image_of_block(const FusedParams& p, const ThreadPlace<S>& place) {
  constexpr i32 kParts = FusedDepth<S>::kParts;
  const i64 step =
      place.one_of(place.column_block * fused_steps(S), place.column_block * kParts - S.volume / 2 * kParts);
  return static_cast<const char*>(place.one_of(p.weights, p.shortcut.weights)) + step * fused_stage_bytes(S);
}

/// Adds up the products of the steps that this warp takes, which is one of the S.split warps that share its
/// queries. With WeightRoad::BulkCopy, the last warp instead copies the weights of all steps into shared
/// memory. If `follows`, the other warps wait for the last launch before they read the input.
template <FusedSpec S>
MINUET_DEVICE void sum_steps(const FusedParams& p, const ThreadPlace<S>& place, const FusedMasks<S>& masks,
                             const i32 (&columns)[S.row_tiles], bool follows, FusedSums<S>& sums) {
  StepIterator<S> walk(masks);
  WeightRing<S> ring(image_of_block<S>(p, place), walk);
  constexpr bool kStages = fused_stages_rows(S);
  // With BulkRefill, the warps that multiply also copy the weights. They start to load row numbers first.
  constexpr bool kFillsLast = S.weights == WeightRoad::BulkRefill && !kStages;
  if constexpr (kStages) {
    if (place.share < S.split) stage_rows<S>(p, place, masks, columns);
  }
  if constexpr (!kFillsLast) ring.fill();
  if (place.share == S.split) return;
  const i32 end = ring.end(walk.count());
  walk.advance(place.share);
  if (follows) follow_last_launch();
  if constexpr (kStages) wait_for_rows<S>();
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

/// Computes the block's only tile. If `follows`, the block waits for the last launch before it reads the
/// input.
template <FusedSpec S>
MINUET_DEVICE void compute_tile(const FusedParams& p, bool follows) {
  const ThreadPlace<S> place(p, /*is_first=*/true);
  i32 columns[S.row_tiles];
  FusedMasks<S> masks = find_queries<S>(p, place, columns);
  if (i64{place.block} >= place.count && i64{place.block} >= p.padded_rows) {
    if (follows) follow_last_launch();
    return;
  }
  WeightRing<S>::prepare();
  if constexpr (FusedMasks<S>::kOfBlock) __syncthreads();
  masks.gather();
  FusedSums<S> sums = {};
  // If steps cover several offsets (kFolds), they are processed whatever the masks say. If there are no
  // queries at all, there are no rows to read, so the steps must be skipped here.
  if (!FusedDepth<S>::kFolds || place.count > 0) {
    sum_steps<S>(p, place, masks, columns, follows, sums);
  } else if (follows) {
    follow_last_launch();
  }
  // The place is computed again, because registers are scarce while products run.
  const ThreadPlace<S> same(p, /*is_first=*/false);
  if constexpr (S.split > 1) add_warps<S>(same, sums);
  if constexpr (S.cluster > 1) {
    if (same.rank >= 0) add_blocks<S>(same, sums);
  }
  if (same.share != 0) return;
  FusedRows<S> rows(p, same);
  finish<S>(p, same, rows, sums);
}

template <FusedSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(fused_threads(S),
                                   S.blocks) void fused_convolution(MINUET_PARAMS(FusedParams) p) {
  const bool follows_later = S.programmatic && p.reads_early != 0;
  if (S.programmatic && !follows_later) follow_last_launch();
  if constexpr (S.persistent) {
    compute_tiles<S>(p, follows_later);
  } else {
    compute_tile<S>(p, follows_later);
  }
}

}  // namespace minuet
