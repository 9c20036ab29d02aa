// The kernel radix_pass does the pass for one digit of a stable least-significant-digit radix sort. It moves
// keys, and optionally values, to the number of keys with lower digits, plus their rank among equal digits.
// Decoupled look-back finds the rank across tiles.
//
// It uses CUB's onesweep agent, which wants the sums of the counts of lower digits. Each block computes
// these sums, because a separate kernel for them takes longer than the sums. The launch has one block per
// tile of the capacity. Tiles are numbered in the order in which blocks start. Tiles past *count are
// therefore the last ones, and their blocks return at once.
#pragma once

#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
// The two headers above come first, because CUB's agent header relies on what they include.
#include <cub/agent/agent_radix_sort_onesweep.cuh>
#include <cub/block/block_scan.cuh>

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <RadixPassSpec S>
struct RadixPassPolicy {
  enum {
    BLOCK_THREADS = S.threads,
    ITEMS_PER_THREAD = S.items_per_thread,
    RANK_NUM_PARTS = 1,
    RADIX_BITS = kRadixBits,
  };
  static constexpr cub::RadixRankAlgorithm RANK_ALGORITHM = cub::RADIX_RANK_MATCH_EARLY_COUNTS_ANY;
  static constexpr cub::BlockScanAlgorithm SCAN_ALGORITHM =
      S.raking_scan ? cub::BLOCK_SCAN_RAKING_MEMOIZE : cub::BLOCK_SCAN_WARP_SCANS;
  static constexpr cub::RadixSortStoreAlgorithm STORE_ALGORITHM = cub::RADIX_SORT_STORE_DIRECT;
};

template <bool Values>
struct RadixValue {
  using Type = u32;
};
template <>
struct RadixValue<false> {
  using Type = cub::NullType;
};

template <RadixPassSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void radix_pass(MINUET_PARAMS(RadixPassParams) p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  using Value = typename RadixValue<S.values>::Type;
  // The look-back stores two flag bits beside a 30-bit count, so there must be fewer than 2^30 items.
  using Agent =
      cub::detail::radix_sort::AgentRadixSortOnesweep<RadixPassPolicy<S>, false, Key, Value, u32, i32>;
  static_assert(S.threads >= kRadixBins, "every digit needs a thread, which adds up its count");
  using Scan = cub::BlockScan<u32, S.threads>;
  __shared__ typename Agent::TempStorage storage;
  __shared__ typename Scan::TempStorage scan_storage;
  __shared__ u32 starts[kRadixBins];
  const i32 count = *p.count;
  Value* values_out = nullptr;
  const Value* values_in = nullptr;
  if constexpr (S.values) {
    values_out = p.values_out;
    values_in = p.values_in;
  }
  Agent agent(storage, reinterpret_cast<i32*>(p.lookback), reinterpret_cast<i32*>(p.next_tile), nullptr,
              starts, static_cast<Key*>(p.keys_out), static_cast<const Key*>(p.keys_in), values_out,
              values_in, count, p.bit, p.bits);
  if (static_cast<i64>(agent.block_idx) * Agent::TILE_ITEMS >= count) return;
  u32 start = threadIdx.x < kRadixBins ? p.bins[threadIdx.x] : 0;
  Scan(scan_storage).ExclusiveSum(start, start);
  if (threadIdx.x < kRadixBins) starts[threadIdx.x] = start;
  __syncthreads();
  agent.Process();
}

}  // namespace minuet
