// The kernel finish_norm_gradients adds the sums of all pieces of each channel (sum_norm_gradients.h), and
// stores them and the gradients of weight and bias. A block has kFinishedChannels channels. Each of the
// threads of a channel adds every n-th piece, and their sums are added in order. sum_norm_gradients is always
// the launch before.
#pragma once

#include "kernels_templates/batch_norm/block_sums.h"

namespace minuet {

template <FinishNormGradientsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void finish_norm_gradients(
    MINUET_PARAMS(BatchNormGradientParams) p) {
  constexpr i32 kShares = S.threads / kFinishedChannels, kMost = (kMostNormPieces + kShares - 1) / kShares;
  const i64 pieces = NormPieces(early_count_within(p.shape.count, p.shape.rows)).count();
  follow_last_launch();
  const i64 channels = p.shape.channels;
  const i32 thread = static_cast<i32>(threadIdx.x), share = thread / kFinishedChannels;
  for (i64 first = static_cast<i64>(blockIdx.x) * kFinishedChannels; first < channels;
       first += static_cast<i64>(gridDim.x) * kFinishedChannels) {
    const i64 channel = first + thread % kFinishedChannels;
    const i64 left = channel < channels ? pieces - share : 0;
    const PieceSums* at = p.pieces + share * channels + channel;
    PieceSums parts[kMost];
    MINUET_UNROLL
    for (i32 i = 0; i < kMost; ++i, at += kShares * channels) parts[i] = load_sums(i * kShares < left, at);
    const bool stores = share == 0 && channel < channels;
    NormGradientState state = {};
    if (stores) state = gradient_state(p, channel);
    float sums[2] = {0, 0};
    MINUET_UNROLL
    for (i32 i = 0; i < kMost; ++i) sums[0] += parts[i].first, sums[1] += parts[i].second;
    add_finished_channels<S.threads, 2>(sums);
    if (stores) store_norm_sums(p, channel, state, sums[0], sums[1]);
  }
}

}  // namespace minuet
