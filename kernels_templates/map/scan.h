// The kernel scan computes output[i], the sum of input[j] over j < i, for i in [0, items]. The last output is
// the total. Each block handles one tile.
//
// It uses CUB's scan agent, which makes one pass with decoupled look-back. The items are computed from the
// input on the fly (ScanInput), so that they are never written to memory as 0 and 1. The grid is sized for
// the capacity, and tiles past the count found on the device do nothing.
#pragma once

#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
// The two headers above come first, because CUB's agent header relies on what they include.
#include <cub/agent/agent_scan.cuh>
#include <cuda/std/functional>
#include <cuda/std/iterator>

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/prepare_scans.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

/// Iterates over the numbers that the scan adds up, followed by a 0.
template <ScanInput I>
struct ScanView {
  using iterator_category = ::cuda::std::random_access_iterator_tag;
  using value_type = i32;
  using difference_type = i64;
  using pointer = const i32*;
  using reference = i32;

  const void* input;
  i64 items;
  i64 position;

  MINUET_DEVICE i32 operator[](i64 offset) const {
    const i64 i = position + offset;
    if (i >= items) return 0;
    if constexpr (I == ScanInput::Heads32) {
      const u32* keys = static_cast<const u32*>(input);
      return i == 0 || keys[i] != keys[i - 1];
    } else if constexpr (I == ScanInput::Heads64) {
      const u64* keys = static_cast<const u64*>(input);
      return i == 0 || keys[i] != keys[i - 1];
    } else if constexpr (I == ScanInput::Hits) {
      return static_cast<const i32*>(input)[i] >= 0;
    } else {
      return static_cast<const i32*>(input)[i];
    }
  }
  MINUET_DEVICE i32 operator*() const { return (*this)[0]; }
  MINUET_DEVICE ScanView operator+(i64 offset) const { return {input, items, position + offset}; }
};

template <ScanSpec S>
struct ScanPolicy {
  enum {
    BLOCK_THREADS = S.threads,
    ITEMS_PER_THREAD = S.items_per_thread,
  };
  static constexpr cub::BlockLoadAlgorithm LOAD_ALGORITHM = cub::BLOCK_LOAD_WARP_TRANSPOSE;
  static constexpr cub::CacheLoadModifier LOAD_MODIFIER = cub::LOAD_DEFAULT;
  static constexpr cub::BlockStoreAlgorithm STORE_ALGORITHM = cub::BLOCK_STORE_WARP_TRANSPOSE;
  static constexpr cub::BlockScanAlgorithm SCAN_ALGORITHM = cub::BLOCK_SCAN_WARP_SCANS;
  // CUB delays repeated reads of a tile's state if the grid is large. This grid is large, but few of its
  // tiles have items, so the delay is disabled.
  struct detail {
    using delay_constructor_t = cub::detail::no_delay_constructor_t<0>;
  };
};

template <ScanSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void scan(MINUET_PARAMS(ScanParams) p) {
  follow_last_launch();
  using Agent = cub::detail::scan::AgentScan<ScanPolicy<S>, ScanView<S.input>, i32*, ::cuda::std::plus<>, i32,
                                             i64, i32>;
  using State = typename Agent::ScanTileStateT;
  static_assert(State::TILE_STATUS_PADDING == kScanPaddingTiles &&
                    sizeof(typename State::TxnWord) == kScanTileBytes &&
                    cub::SCAN_TILE_OOB == kScanTileOutOfBounds && cub::SCAN_TILE_INVALID == kScanTileInvalid,
                "prepare_scans writes what CUB's look-back expects");
  __shared__ typename Agent::TempStorage storage;
  const i64 items = scan_items(p, *p.count);
  State state;
  state.Init(0, p.tiles, 0);
  Agent agent(storage, ScanView<S.input>{p.input, items, 0}, p.output, ::cuda::std::plus<>{}, 0);
  agent.ConsumeRange(items + 1, state, 0);
}

}  // namespace minuet
