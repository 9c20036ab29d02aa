// This file combines what the threads of a block have of the channels that they share. All orders are fixed.
#pragma once

#include "kernels_templates/batch_norm/norm_rows.h"

namespace minuet {

/// Counts the sums that a thread combines at once.
constexpr i32 kCombinedShares = 8;

/// Combines the sums of the `Shares` threads that have each channel. The sums of share s are in
/// from[(e * Shares + s) * kLanes + lane], where e is the channel's place in its vector. Thread
/// e * kLanes + lane gets the result; that of others has no meaning.
///
/// Each thread combines sums by combine(parts, first, step), where part i is that of share first + i * step.
/// If there are results of several threads, they are combined in the same way, and `to` is memory for them.
template <class Thread, i32 Shares, class Combine>
MINUET_DEVICE PieceSums combine_shares(PieceSums* from, PieceSums* to, const Combine& combine) {
  constexpr i32 kKept = Shares > kCombinedShares ? Shares / kCombinedShares : 1, kParts = Shares / kKept;
  constexpr i32 kNeighbours = kKept * Thread::kLanes;
  static_assert(Thread::kElements * kNeighbours <= Thread::kThreads, "each result has a thread");
  const i32 thread = static_cast<i32>(threadIdx.x), neighbour = thread % kNeighbours;
  const bool works = thread < Thread::kElements * kNeighbours;
  __syncthreads();
  PieceSums result = {};
  if (works) {
    PieceSums parts[kParts];
    MINUET_UNROLL
    for (i32 i = 0; i < kParts; ++i)
      parts[i] = from[thread / kNeighbours * Shares * Thread::kLanes + i * kNeighbours + neighbour];
    result = combine.template combine<kParts>(parts, neighbour / Thread::kLanes, kKept);
  }
  if constexpr (kKept == 1) {
    return result;
  } else {
    if (works) to[thread] = result;
    return combine_shares<Thread, kKept>(to, from, combine);
  }
}

/// Combines the moments of shares of a piece. Share s has every n-th row of the piece from row s on.
struct MomentsOfShares {
  i32 rows;  // Counts the rows of the piece.

  template <i32 Parts>
  MINUET_DEVICE PieceSums combine(const PieceSums* parts, i32 first, i32 step) const {
    Moments moments[Parts];
    MINUET_UNROLL
    for (i32 i = 0; i < Parts; ++i) {
      const i32 left = rows - (first + i * step);
      const i32 count = left <= 0 ? 0 : (left - 1) / (Parts * step) + 1;
      moments[i] = {static_cast<float>(count), parts[i].first, parts[i].second};
    }
    const Moments all = merged<Parts>(moments);
    return {all.mean, all.squares};
  }
};

struct SumsOfShares {
  template <i32 Parts>
  MINUET_DEVICE PieceSums combine(const PieceSums* parts, i32 /*first*/, i32 /*step*/) const {
    PieceSums sum = parts[0];
    MINUET_UNROLL
    for (i32 i = 1; i < Parts; ++i) sum.first += parts[i].first, sum.second += parts[i].second;
    return sum;
  }
};

/// Loads the sums of a piece, or zeros if they are not `present`, in one access.
MINUET_DEVICE PieceSums load_sums(bool present, const PieceSums* sums) {
  const Vector<8> v = load_vector_if<8, true>(present, sums, 0);
  return {float_of(v.words[0]), float_of(v.words[1])};
}

/// Holds a number of each warp for each channel.
template <i32 Warps>
struct alignas(16) WarpSums {
  float of[kFinishedChannels][Warps];
};

/// Adds numbers over the threads whose numbers are equal modulo kFinishedChannels. All of them get the sums.
/// All threads of the block must call this function together.
template <i32 Threads, i32 Numbers>
MINUET_DEVICE void add_finished_channels(float* numbers) {
  constexpr i32 kWarps = Threads / 32;
  static_assert(Threads % 32 == 0 && 32 % kFinishedChannels == 0, "a warp has all channels");
  __shared__ WarpSums<kWarps> of_warps[Numbers];
  const i32 thread = static_cast<i32>(threadIdx.x), channel = thread % kFinishedChannels;
  MINUET_UNROLL
  for (i32 i = 0; i < Numbers; ++i) {
    MINUET_UNROLL
    for (i32 distance = 16; distance >= kFinishedChannels; distance /= 2)
      numbers[i] += __shfl_xor_sync(~0u, numbers[i], distance);
  }
  __syncthreads();  // All threads have read the results of an earlier call.
  if (thread % 32 < kFinishedChannels) {
    MINUET_UNROLL
    for (i32 i = 0; i < Numbers; ++i) of_warps[i].of[channel][thread / 32] = numbers[i];
  }
  __syncthreads();
  MINUET_UNROLL
  for (i32 i = 0; i < Numbers; ++i) {
    float sum = 0;
    MINUET_UNROLL
    for (i32 warp = 0; warp < kWarps; ++warp) sum += of_warps[i].of[channel][warp];
    numbers[i] = sum;
  }
}

}  // namespace minuet
