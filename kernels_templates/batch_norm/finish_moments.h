// The kernel finish_moments merges the moments of all pieces, or of all ranks, of each channel
// (shared/batch_norm_kernels.h). It stores them, or the statistics that normalize reads, and updates the
// running statistics. A block has kFinishedChannels channels. Each of the threads of a channel has every n-th
// part. If there are no moments of ranks, sum_moments is the launch before.
#pragma once

#include "kernels_templates/batch_norm/block_sums.h"

namespace minuet {

/// Counts the parts whose moments a thread loads at once.
constexpr i32 kMergedParts = 8;

/// Loads the moments that parts `begin` to `end` have of a channel, of which a thread has at most
/// kMergedParts. Parts that are missing have no numbers.
template <i32 Threads>
MINUET_DEVICE void load_parts(const BatchNormParams& p, const NormPieces& pieces, i64 begin, i64 end,
                              i64 channel, Moments* parts) {
  constexpr i32 kShares = Threads / kFinishedChannels;
  const i64 channels = p.shape.channels, own = begin + static_cast<i32>(threadIdx.x) / kFinishedChannels;
  // Counts the parts from the thread's first one on. Addresses advance from part to part, because products
  // for each of them would take longer than the loads.
  const i64 left = channel < channels ? end - own : 0;
  if (p.moments == nullptr) {
    const PieceSums* at = p.pieces + own * channels + channel;
    MINUET_UNROLL
    for (i32 i = 0; i < kMergedParts; ++i, at += kShares * channels) {
      const bool present = i * kShares < left;
      const PieceSums piece = load_sums(present, at);
      const i32 rows = pieces.rows_of(own + i * kShares);
      parts[i] = {present ? static_cast<float>(rows) : 0, piece.first, piece.second};
    }
  } else {
    const i64 numbers = 2 * channels + 1;
    const float* at = p.moments + own * numbers;
    MINUET_UNROLL
    for (i32 i = 0; i < kMergedParts; ++i, at += kShares * numbers) {
      const auto load = [&](i64 place) {
        return float_of(load_vector_if<4, true>(i * kShares < left, at + place, 0).words[0]);
      };
      parts[i] = {load(2 * channels), load(channel), load(channels + channel)};
    }
  }
}

/// Returns the mean of the first of these parts that has numbers, from which differences are taken.
MINUET_DEVICE float first_mean(const BatchNormParams& p, const NormPieces& pieces, i64 begin, i64 end,
                               i64 channel) {
  if (channel >= p.shape.channels || begin >= end) return 0;
  i64 part = begin;
  while (p.moments != nullptr && part < end - 1 && count_of_rank(p, part) == 0) ++part;
  return moments_of_part(p, pieces, part, channel).mean;
}

/// Merges the parts of all threads of a channel. As in merged(), the mean is computed first, and then the
/// squares of differences from it. All threads of the block must call this function together.
template <i32 Threads>
MINUET_DEVICE Moments merge_parts(Moments* parts, float shift) {
  float sums[2] = {0, 0};  // The number and the sum of differences.
  MINUET_UNROLL
  for (i32 i = 0; i < kMergedParts; ++i) {
    parts[i].mean = parts[i].count == 0 ? 0 : parts[i].mean - shift;
    sums[0] += parts[i].count;
    sums[1] = multiply_add(parts[i].count, parts[i].mean, sums[1]);
  }
  add_finished_channels<Threads, 2>(sums);
  const float count = sums[0], mean = count == 0 ? 0 : sums[1] / count;
  float squares = 0;
  MINUET_UNROLL
  for (i32 i = 0; i < kMergedParts; ++i) {
    const float difference = parts[i].mean - mean;
    if (parts[i].count != 0)
      squares += multiply_add(parts[i].count * difference, difference, parts[i].squares);
  }
  add_finished_channels<Threads, 1>(&squares);
  if (count == 0) return {0, 0, 0};
  return {count, shift + mean, squares};
}

template <FinishMomentsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void finish_moments(MINUET_PARAMS(BatchNormParams) p) {
  constexpr i32 kAtOnce = S.threads / kFinishedChannels * kMergedParts;
  const NormPieces pieces(p.moments != nullptr ? 0 : early_count_within(p.shape.count, p.shape.rows));
  follow_last_launch();
  const i64 parts = moment_parts(p, pieces), channels = p.shape.channels;
  const i32 thread = static_cast<i32>(threadIdx.x);
  for (i64 first = static_cast<i64>(blockIdx.x) * kFinishedChannels; first < channels;
       first += static_cast<i64>(gridDim.x) * kFinishedChannels) {
    const i64 channel = first + thread % kFinishedChannels;
    const bool stores = thread < kFinishedChannels && channel < channels;
    NormChannelState state = {};
    Moments all[2] = {};
    for (i64 begin = 0; begin == 0 || begin < parts; begin += kAtOnce) {
      const i64 end = begin + kAtOnce < parts ? begin + kAtOnce : parts;
      Moments loaded[kMergedParts];
      load_parts<S.threads>(p, pieces, begin, end, channel, loaded);
      const float shift = first_mean(p, pieces, begin, end, channel);
      if (stores && begin == 0) state = channel_state(p, channel);
      all[1] = merge_parts<S.threads>(loaded, shift);
      all[0] = begin == 0 ? all[1] : merged<2>(all);
    }
    if (stores) store_moments(p, channel, state, all[0]);
  }
}

}  // namespace minuet
