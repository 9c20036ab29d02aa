// The kernel finish_norm_gradients adds the sums of all pieces of each channel (sum_norm_gradients.h), and
// stores them and the gradients of weight and bias. A block has kFinishedChannels channels. Each of the
// threads of a channel adds every n-th piece, and their sums are added in order.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/batch_norm_kernels.h"

namespace minuet {

template <FinishNormGradientsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void finish_norm_gradients(
    MINUET_PARAMS(BatchNormGradientParams) p) {
  follow_last_launch();
  constexpr i32 kShares = S.threads / kFinishedChannels;
  __shared__ float shares[2][S.threads];
  const i64 pieces = norm_pieces(used_rows(p.shape)), channels = p.shape.channels;
  const i32 thread = static_cast<i32>(threadIdx.x), share = thread / kFinishedChannels;
  for (i64 first = static_cast<i64>(blockIdx.x) * kFinishedChannels; first < channels;
       first += static_cast<i64>(gridDim.x) * kFinishedChannels) {
    const i64 channel = first + thread % kFinishedChannels;
    float sum = 0, product = 0;
    if (channel < channels) {
      for (i64 piece = share; piece < pieces; piece += kShares) {
        sum += fresh(p.pieces + 2 * piece * channels + channel);
        product += fresh(p.pieces + (2 * piece + 1) * channels + channel);
      }
    }
    shares[0][thread] = sum;
    shares[1][thread] = product;
    for (i32 half = kShares / 2; half > 0; half /= 2) {
      __syncthreads();
      if (share < half) {
        shares[0][thread] += shares[0][thread + half * kFinishedChannels];
        shares[1][thread] += shares[1][thread + half * kFinishedChannels];
      }
    }
    if (share == 0 && channel < channels) {
      store_norm_sums(p, channel, shares[0][thread], shares[1][thread]);
    }
    __syncthreads();
  }
}

}  // namespace minuet
