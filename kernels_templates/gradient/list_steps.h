// The kernel list_steps finds the first pair of each offset in a list of pairs, counts the steps of the
// offsets, and divides the steps into parts (shared/gradient_kernels.h). It runs as one block. Each warp
// searches for the first pair of one offset at a time, with 32 probes at once.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

/// Returns the number of the first of `count` pairs whose offset is at least `offset`. All lanes of a warp
/// must call it.
MINUET_DEVICE i64 first_pair_of(const PairList& list, i64 count, i32 offset) {
  i64 first = 0, end = count;  // The pair is in [first, end].
  const i64 lane = threadIdx.x % 32;
  while (first < end) {
    const i64 step = (end - first + 31) / 32, probe = first + (lane + 1) * step - 1;
    const bool is_before = probe < end && fresh(list.pairs + 3 * probe) < offset;
    const i64 before = count_bits(__ballot_sync(~0u, is_before));
    // The probes in front are before the pair, and the next probe is not.
    const i64 next = first + (before + 1) * step - 1;
    first += before * step;
    if (next < end) end = next;
  }
  return first;
}

template <ListStepsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void list_steps(MINUET_PARAMS(ListStepsParams) p) {
  follow_last_launch();
  __shared__ i32 first_pairs[kMostGradientOffsets + 1];
  const i64 count = pairs_in(p.list);
  const i32 thread = static_cast<i32>(threadIdx.x);
  for (i32 k = thread / 32; k <= p.volume; k += S.threads / 32) {
    const i64 first = first_pair_of(p.list, count, k);
    if (thread % 32 == 0) p.first_pair[k] = first_pairs[k] = static_cast<i32>(first);
  }
  __syncthreads();
  if (thread != 0) return;
  i64 steps = 0;
  i32 first = first_pairs[0];
  for (i32 k = 0; k < p.volume; ++k) {
    p.first_step[k] = static_cast<i32>(steps);
    // The searches in a list that does not ascend may find numbers that do not either. An offset without
    // steps may then not have pairs, so the numbers that weight_gradient reads are made to ascend.
    i32 end = first_pairs[k + 1];
    if (end < first) p.first_pair[k + 1] = end = first;
    steps += (i64{end} - first + kStepPairs - 1) / kStepPairs;
    first = end;
  }
  p.first_step[p.volume] = static_cast<i32>(steps);
  p.first_step[p.volume + 1] = static_cast<i32>(parts_of(steps, p.wanted_parts));
}

}  // namespace minuet
