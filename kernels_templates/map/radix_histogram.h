// The kernel radix_histogram adds to bins[pass][digit] the number of keys whose digit of that pass is
// `digit`. It handles all passes in one read of the keys.
//
// It uses CUB's histogram agent. Each block counts its tiles in shared memory and adds to bins once.
#pragma once

#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
// The two headers above come first, because CUB's agent header relies on what they include.
#include <cub/agent/agent_radix_sort_histogram.cuh>

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <RadixHistogramSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void radix_histogram(MINUET_PARAMS(RadixHistogramParams) p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  using Policy = cub::AgentRadixSortHistogramPolicy<S.threads, S.items_per_thread, 1, Key, kRadixBits>;
  using Agent = cub::detail::radix_sort::AgentRadixSortHistogram<Policy, false, Key, u32>;
  __shared__ typename Agent::TempStorage storage;
  Agent agent(storage, p.bins, static_cast<const Key*>(p.keys), static_cast<u32>(*p.count), p.begin_bit,
              p.end_bit);
  agent.Process();
}

}  // namespace minuet
