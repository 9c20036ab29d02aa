// Host twin of scan: output[i] = sum of input[j] over j < i, for i in [0, items]: the last one is the total.
//
// As CUB's agent: a block a tile, blocks past the items found on the device do nothing; a tile's inclusive
// sum goes to the next through the look-back state. Blocks run one after another, so a tile finds its
// predecessor's sum at once; a state that prepare_scans did not leave is a fault.
#pragma once

#include "kernels_templates/map/prepare_scans.h"
#include "kernels_templates/shared/map_kernels.h"
#include "tests/support/software_cuda/twins/fault.h"

namespace minuet {

constexpr u32 kScanTileInclusive = 101;  // CUB's status of a tile whose sum is known

template <ScanInput I>
MINUET_DEVICE i32 scan_item(const void* input, i64 items, i64 i) {
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

/// Sum of the tiles before `tile`; leaves the sum that includes this tile's `own`. CUB reads a warp of states
/// at a time, padding among them.
MINUET_DEVICE u32 take_prefix(u64* state, i64 tile, u32 own) {
  u64* const place = state + kScanPaddingTiles + tile;
  if (*place != kScanTileInvalid) twin_fault("scan: the state of a tile is not what prepare_scans leaves");
  for (i64 t = tile - kScanPaddingTiles; t < 0; ++t) {
    if (static_cast<u32>(state[kScanPaddingTiles + t]) == kScanTileOutOfBounds) continue;
    twin_fault("scan: the padding of the state is not what prepare_scans leaves");
  }
  u32 before = 0;
  if (tile > 0) {
    if (static_cast<u32>(place[-1]) != kScanTileInclusive) twin_fault("scan: the tile before left no sum");
    before = static_cast<u32>(place[-1] >> 32);
  }
  *place = static_cast<u64>(before + own) << 32 | kScanTileInclusive;
  return before;
}

template <ScanSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void scan(MINUET_PARAMS(ScanParams) p) {
  constexpr i64 kTile = static_cast<i64>(S.threads) * S.items_per_thread;
  __shared__ u32 sums[S.threads];
  const i64 items = scan_items(p, *p.count), first = blockIdx.x * kTile;
  if (first > items) return;
  // All is read before anything is written: output may be the input's memory.
  const i64 begin = first + static_cast<i64>(threadIdx.x) * S.items_per_thread;
  i32 values[S.items_per_thread];
  u32 sum = 0;
  for (i32 u = 0; u < S.items_per_thread; ++u) {
    values[u] = scan_item<S.input>(p.input, items, begin + u);
    sum += static_cast<u32>(values[u]);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 total = 0;
    for (i32 t = 0; t < S.threads; ++t) total += sums[t];
    u32 running = take_prefix(static_cast<u64*>(p.tiles), blockIdx.x, total);
    for (i32 t = 0; t < S.threads; ++t) {
      const u32 own = sums[t];
      sums[t] = running;
      running += own;
    }
  }
  __syncthreads();
  u32 running = sums[threadIdx.x];
  for (i32 u = 0; u < S.items_per_thread && begin + u <= items; ++u) {
    p.output[begin + u] = static_cast<i32>(running);
    running += static_cast<u32>(values[u]);
  }
}

}  // namespace minuet
