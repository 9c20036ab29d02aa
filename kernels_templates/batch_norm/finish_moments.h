// The kernel finish_moments merges the moments of all pieces, or of all ranks, of each channel
// (shared/batch_norm_kernels.h). It stores them, or the statistics that normalize reads, and updates the
// running statistics. A block has kFinishedChannels channels. Each of the threads of a channel adds every
// n-th part, and their sums are merged in order.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/batch_norm_kernels.h"

namespace minuet {

template <FinishMomentsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void finish_moments(MINUET_PARAMS(BatchNormParams) p) {
  follow_last_launch();
  constexpr i32 kShares = S.threads / kFinishedChannels;
  __shared__ Moments shares[S.threads];
  const i64 rows = used_rows(p.shape), parts = moment_parts(p, rows);
  const i32 thread = static_cast<i32>(threadIdx.x), share = thread / kFinishedChannels;
  const i64 channels = p.shape.channels;
  for (i64 first = static_cast<i64>(blockIdx.x) * kFinishedChannels; first < channels;
       first += static_cast<i64>(gridDim.x) * kFinishedChannels) {
    const i64 channel = first + thread % kFinishedChannels;
    MomentsSum sum;
    if (channel < channels) {
      for (i64 part = share; part < parts; part += kShares) sum.add(moments_of_part(p, rows, part, channel));
    }
    shares[thread] = sum.moments();
    for (i32 half = kShares / 2; half > 0; half /= 2) {
      __syncthreads();
      if (share < half) {
        shares[thread] = merged(shares[thread], shares[thread + half * kFinishedChannels]);
      }
    }
    if (share == 0 && channel < channels) store_moments(p, channel, shares[thread]);
    __syncthreads();
  }
}

}  // namespace minuet
