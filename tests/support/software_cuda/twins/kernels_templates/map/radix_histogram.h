// Host twin of radix_histogram: bins[pass][digit] += keys whose digit of that pass is `digit`.
//
// As CUB's agent: a block counts its tiles in shared memory, then adds what it found to bins, which are
// preset to 0.
#pragma once

#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <RadixHistogramSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void radix_histogram(MINUET_PARAMS(RadixHistogramParams) p) {
  using Key = typename KeyOf<S.key>::Type;
  constexpr i64 kTile = static_cast<i64>(S.threads) * S.items_per_thread;
  __shared__ u32 counts[kMaxRadixPasses][kRadixBins];
  const i32 passes = (p.end_bit - p.begin_bit + kRadixBits - 1) / kRadixBits;
  const i64 count = *p.count;
  for (i32 bin = threadIdx.x; bin < passes * kRadixBins; bin += S.threads)
    counts[bin / kRadixBins][bin % kRadixBins] = 0;
  __syncthreads();
  for (i64 tile = blockIdx.x; tile * kTile < count; tile += gridDim.x) {
    const i64 end = (tile + 1) * kTile < count ? (tile + 1) * kTile : count;
    for (i64 i = tile * kTile + threadIdx.x; i < end; i += S.threads) {
      const Key key = static_cast<const Key*>(p.keys)[i];
      for (i32 pass = 0; pass < passes; ++pass) {
        const i32 bit = p.begin_bit + pass * kRadixBits;
        const i32 bits = p.end_bit - bit < kRadixBits ? p.end_bit - bit : kRadixBits;
        atomicAdd(&counts[pass][static_cast<u32>(key >> bit) & ((1u << bits) - 1)], 1u);
      }
    }
  }
  __syncthreads();
  for (i32 bin = threadIdx.x; bin < passes * kRadixBins; bin += S.threads) {
    const u32 found = counts[bin / kRadixBins][bin % kRadixBins];
    if (found != 0) atomicAdd(p.bins + bin, found);
  }
}

}  // namespace minuet
