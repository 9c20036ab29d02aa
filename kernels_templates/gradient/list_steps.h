// The kernel list_steps finds the first pair of each offset in lists of pairs, and counts the steps of the
// offsets (shared/gradient_kernels.h). Each list has one block. All threads read one pair each, evenly
// distributed over the list. Then each warp searches for the first pair of one offset at a time, among these
// pairs and then between two of them, with 32 probes at once. At last one warp counts the steps.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/search.h"
#include "kernels_templates/core/tile_sums.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

/// Stores the first pairs and the first steps of all offsets. All lanes of one warp must call it. The
/// searches in a list that does not ascend may find numbers that do not either. An offset without steps may
/// then not have pairs, so the numbers are made to ascend.
MINUET_DEVICE void store_steps(const StepsOfList& of, const i32* first_pairs) {
  const i32 lane = static_cast<i32>(threadIdx.x % 32);
  i32 first = first_pairs[0], steps = 0;
  if (lane == 0) of.first_pair[0] = first;
  for (i32 k = lane; k - lane < of.volume; k += 32) {
    i32 end = k < of.volume ? first_pairs[k + 1] : 0;
    if (end < first) end = first;
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const i32 below = __shfl_up_sync(~0u, end, distance);
      if (below > end) end = below;
    }
    const i32 end_below = __shfl_up_sync(~0u, end, 1);
    const u32 pairs = static_cast<u32>(end) - static_cast<u32>(lane > 0 ? end_below : first);
    const u32 count = (pairs + kStepPairs - 1) / kStepPairs, up_to_lane = sum_up_to_lane(count);
    if (k < of.volume) {
      of.first_pair[k + 1] = end;
      of.first_step[k] = steps + static_cast<i32>(up_to_lane - count);
    }
    first = __shfl_sync(~0u, end, 31);
    steps += static_cast<i32>(__shfl_sync(~0u, up_to_lane, 31));
  }
  if (lane == 0) of.first_step[of.volume] = steps;
}

template <ListStepsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void list_steps(MINUET_PARAMS(ListStepsParams) p) {
  follow_last_launch();
  __shared__ i32 first_pairs[kMostGradientOffsets + 1];
  __shared__ i32 samples[S.threads];  // Holds the offset of the last pair of each piece of the list.
  const StepsOfList& of = p.lists[blockIdx.x];
  const i64 count = pairs_in(of.list), piece = (count + S.threads - 1) / S.threads;
  const i32 thread = static_cast<i32>(threadIdx.x);
  const auto offset_of = [&](i64 pair) { return fresh(of.list.pairs + 3 * pair); };
  const i64 sample = (thread + 1) * piece - 1;
  samples[thread] = 0 <= sample && sample < count ? offset_of(sample) : kMostGradientOffsets;
  __syncthreads();
  for (i32 k = thread / 32; k <= of.volume; k += S.threads / 32) {
    const i64 pieces = find_by_warp(0, S.threads, [&](i64 place) { return samples[place] < k; });
    const i64 begin = pieces * piece, last = begin + piece - 1;
    const i64 first = find_by_warp(begin < count ? begin : count, last < count ? last : count,
                                   [&](i64 pair) { return offset_of(pair) < k; });
    if (thread % 32 == 0) first_pairs[k] = static_cast<i32>(first);
  }
  __syncthreads();
  if (thread < 32) store_steps(of, first_pairs);
}

}  // namespace minuet
