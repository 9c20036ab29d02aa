// bins[pass][digit] = sum of bins[pass][d] over d < digit, in place. One block per pass.
//
// The sum doubles its distance each round in shared memory. 256 numbers per pass do not justify the block
// scan of a library.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <RadixBinsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void radix_bins(MINUET_PARAMS(RadixBinsParams) p) {
  follow_last_launch();
  constexpr i32 kShare = (kRadixBins + S.threads - 1) / S.threads;  // bins per thread
  __shared__ u32 sums[kRadixBins];
  u32* bins = p.bins + static_cast<i64>(blockIdx.x) * kRadixBins;
  u32 sum[kShare], own[kShare];
  MINUET_UNROLL
  for (i32 u = 0; u < kShare; ++u) {
    const u32 bin = threadIdx.x + u * S.threads;
    own[u] = bin < kRadixBins ? bins[bin] : 0;
    sum[u] = own[u];
  }
  for (u32 distance = 1; distance < kRadixBins; distance *= 2) {
    MINUET_UNROLL
    for (i32 u = 0; u < kShare; ++u) {
      const u32 bin = threadIdx.x + u * S.threads;
      if (bin < kRadixBins) sums[bin] = sum[u];
    }
    __syncthreads();
    MINUET_UNROLL
    for (i32 u = 0; u < kShare; ++u) {
      const u32 bin = threadIdx.x + u * S.threads;
      if (bin < kRadixBins && bin >= distance) sum[u] += sums[bin - distance];
    }
    __syncthreads();
  }
  MINUET_UNROLL
  for (i32 u = 0; u < kShare; ++u) {
    const u32 bin = threadIdx.x + u * S.threads;
    if (bin < kRadixBins) bins[bin] = sum[u] - own[u];
  }
}

}  // namespace minuet
