// Host twin of radix_pass: one digit of a stable radix sort. Keys (and values) move to the number of keys
// with lower digits + how many of that digit the tiles before hold + rank in the tile.
//
// As CUB's onesweep agent, tiles are numbered in the order in which blocks start, by next_tile; counts go
// from tile to tile through lookback, with two flags beside them. Blocks run one after another, so a tile
// finds its predecessor's sum at once; what is not as a GPU needs it (memory preset to 0) is a fault. One
// thread ranks: the order is the point.
#pragma once

#include "kernels_templates/shared/map_kernels.h"
#include "tests/support/software_cuda/twins/fault.h"

namespace minuet {

constexpr u32 kLookbackGlobal = 1u << 31, kLookbackPartial = 1u << 30;

/// Keys of `digit` in the tiles before `tile`; leaves the sum that includes this tile's `own`.
MINUET_DEVICE u32 look_back(u32* lookback, i64 tile, u32 digit, u32 own) {
  u32* const place = lookback + tile * kRadixBins + digit;
  if (*place != 0) twin_fault("radix_pass: lookback is not preset to 0");
  u32 before = 0;
  if (tile > 0) {
    const u32 found = *(place - kRadixBins);
    if ((found & kLookbackGlobal) == 0) twin_fault("radix_pass: the tile before left no sum in lookback");
    before = found & (kLookbackPartial - 1);
  }
  *place = (before + own) | kLookbackGlobal;
  return before;
}

template <RadixPassSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void radix_pass(MINUET_PARAMS(RadixPassParams) p) {
  using Key = typename KeyOf<S.key>::Type;
  constexpr i32 kTile = S.threads * S.items_per_thread;
  __shared__ u32 tile_shared;
  __shared__ u32 counts[kRadixBins], starts[kRadixBins];
  __shared__ u32 ranks[kTile];
  if (threadIdx.x == 0) tile_shared = atomicAdd(p.next_tile, 1u);
  __syncthreads();
  const i64 tile = tile_shared;
  if (tile >= gridDim.x) twin_fault("radix_pass: next_tile is not preset to 0");
  const i64 left = *p.count - tile * kTile;
  if (left <= 0) return;
  const i32 items = left < kTile ? static_cast<i32>(left) : kTile;
  const Key* const keys = static_cast<const Key*>(p.keys_in) + tile * kTile;
  const auto digit_of = [&](i32 i) { return static_cast<u32>(keys[i] >> p.bit) & ((1u << p.bits) - 1); };

  for (i32 digit = threadIdx.x; digit < kRadixBins; digit += S.threads) counts[digit] = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (i32 i = 0; i < items; ++i) ranks[i] = counts[digit_of(i)]++;
  }
  __syncthreads();
  for (i32 digit = threadIdx.x; digit < kRadixBins; digit += S.threads) {
    u32 lower = 0;
    for (i32 other = 0; other < digit; ++other) lower += p.bins[other];
    starts[digit] = lower + look_back(p.lookback, tile, static_cast<u32>(digit), counts[digit]);
  }
  __syncthreads();
  for (i32 i = threadIdx.x; i < items; i += S.threads) {
    const i64 place = static_cast<i64>(starts[digit_of(i)]) + ranks[i];
    static_cast<Key*>(p.keys_out)[place] = keys[i];
    if constexpr (S.values) p.values_out[place] = p.values_in[tile * kTile + i];
  }
}

}  // namespace minuet
