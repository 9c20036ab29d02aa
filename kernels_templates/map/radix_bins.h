// The kernel radix_bins replaces bins[pass][digit] by the sum of bins[pass][d] over d < digit. It runs as one
// block per pass.
//
// In each round a thread adds to its sum the sum of the bin that is `distance` bins before. This distance
// doubles from round to round. The threads exchange the sums in shared memory. 256 numbers per pass do not
// justify the block scan of a library.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <RadixBinsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void radix_bins(MINUET_PARAMS(RadixBinsParams) p) {
  follow_last_launch();
  constexpr i32 kShare = (kRadixBins + S.threads - 1) / S.threads;  // Gives the number of bins per thread.
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
