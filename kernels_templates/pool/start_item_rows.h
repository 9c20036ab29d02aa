// The kernel start_item_rows computes words[i] = sum of words[j] over j < i, in place. One block walks over
// the words, and each of its threads sums consecutive words.
#pragma once

#include "kernels_templates/core/tile_sums.h"
#include "kernels_templates/shared/global_pool_kernels.h"

namespace minuet {

template <StartItemRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void start_item_rows(MINUET_PARAMS(StartItemRowsParams) p) {
  constexpr i32 kWords = 8, kWarps = S.threads / 32;
  static_assert(S.threads % 32 == 0 && kWarps <= 32, "one warp adds the sums of all warps");
  __shared__ u32 sums[kWarps];
  const i32 lane = static_cast<i32>(threadIdx.x & 31u), warp = static_cast<i32>(threadIdx.x / 32);
  u32 before = 0;
  for (i64 first = 0; first < p.count; first += i64{S.threads} * kWords) {
    const i64 own = first + i64{threadIdx.x} * kWords;
    u32 words[kWords], sum = 0;
    MINUET_UNROLL
    for (i32 w = 0; w < kWords; ++w) words[w] = own + w < p.count ? p.words[own + w] : 0;
    MINUET_UNROLL
    for (i32 w = 0; w < kWords; ++w) sum += words[w];
    const u32 up_to = sum_up_to_lane(sum);
    if (lane == 31) sums[warp] = up_to;
    __syncthreads();
    if (warp == 0) {
      const u32 up_to_warp = sum_up_to_lane(lane < kWarps ? sums[lane] : 0);
      if (lane < kWarps) sums[lane] = up_to_warp;
    }
    __syncthreads();
    u32 start = before + (warp > 0 ? sums[warp - 1] : 0) + up_to - sum;
    before += sums[kWarps - 1];
    MINUET_UNROLL
    for (i32 w = 0; w < kWords; ++w) {
      if (own + w < p.count) p.words[own + w] = start;
      start += words[w];
    }
    __syncthreads();  // The next sums overwrite those of this round.
  }
}

}  // namespace minuet
