// This file computes exclusive sums over consecutive tiles in one pass, with decoupled look-back (Merrill
// and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016). One thread block
// processes one tile.
//
// Each tile has one state word, which must be preset to 0. It consists of two flag bits above a 30-bit
// sum. A tile waits for the tiles before it, so thread blocks must start in the order of their tiles.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"

namespace minuet {

constexpr u32 kTileSum = 1u << 30;  // This flag means that the word has the sum of the tile alone.
/// This flag means that the word has the sum of the tile and of all tiles before it.
constexpr u32 kPrefixSum = 1u << 31;
constexpr u32 kSumMask = kTileSum - 1;

/// Returns the sum of the values of this lane and of all lanes before it. All lanes of a warp must call
/// this function.
MINUET_DEVICE u32 sum_up_to_lane(u32 value) {
  const u32 lane = threadIdx.x & 31u;
  MINUET_UNROLL
  for (u32 distance = 1; distance < 32; distance *= 2) {
    const u32 below = __shfl_up_sync(~0u, value, distance);
    if (lane >= distance) value += below;
  }
  return value;
}

/// The next two functions read and write the state of a tile. They access it at GPU scope, because other
/// thread blocks access it at the same time and the L1 caches are not coherent.
MINUET_DEVICE u32 read_tile(const u32* state) {
#if defined(__CUDA_ARCH__)
  u32 word;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
               : "=r"(word)
               : "l"(__cvta_generic_to_global(state))
               : "memory");
  return word;
#else
  if (*state == 0) shim::fail("a tile waits for a tile that has not started");
  return *state;
#endif
}
MINUET_DEVICE void write_tile(u32* state, u32 word) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(state)), "r"(word)
               : "memory");
#else
  *state = word;
#endif
}

/// Returns the sum of all tiles before `tile`, and publishes `own`, the sum of this tile, in its state
/// word. Exactly one warp of the thread block must call this function, once and with all lanes.
MINUET_DEVICE u32 sum_of_earlier_tiles(u32* states, i32 tile, u32 own) {
  const i32 lane = static_cast<i32>(threadIdx.x & 31u);
  if (lane == 0) write_tile(states + tile, own | (tile == 0 ? kPrefixSum : kTileSum));
  u32 before = 0;
  for (i32 last = tile - 1; last >= 0; last -= 32) {
    u32 word = kPrefixSum;
    if (last - lane >= 0) {
      do word = read_tile(states + last - lane);
      while (word == 0);
    }
    const u32 has_prefix = __ballot_sync(~0u, (word & kPrefixSum) != 0);
    const i32 end = has_prefix != 0 ? lowest_bit(has_prefix) : 31;
    before += __reduce_add_sync(~0u, lane <= end ? word & kSumMask : 0u);
    if (has_prefix != 0) break;
  }
  if (lane == 0 && tile > 0) write_tile(states + tile, (before + own) | kPrefixSum);
  return before;
}

/// Returns the sum of the values of all earlier threads of this tile (the thread block) and of all earlier
/// tiles. All threads of a block must call this function, and once for each array of states, because a tile
/// publishes one sum in each. Calls share their shared memory, so there must be a __syncthreads() between two
/// of them.
template <i32 Threads>
MINUET_DEVICE u32 sum_before(u32 value, u32* states, i32 tile) {
  constexpr i32 kWarps = Threads / 32;
  static_assert(Threads % 32 == 0 && kWarps <= 32, "one warp adds the sums of all warps");
  __shared__ u32 starts[kWarps];
  const i32 lane = static_cast<i32>(threadIdx.x & 31u), warp = static_cast<i32>(threadIdx.x / 32);
  const u32 up_to = sum_up_to_lane(value);
  if (lane == 31) starts[warp] = up_to;
  __syncthreads();
  if (warp == 0) {
    const u32 of_warp = lane < kWarps ? starts[lane] : 0, up_to_warp = sum_up_to_lane(of_warp);
    const u32 before = sum_of_earlier_tiles(states, tile, __shfl_sync(~0u, up_to_warp, 31));
    if (lane < kWarps) starts[lane] = before + up_to_warp - of_warp;
  }
  __syncthreads();
  return starts[warp] + up_to - value;
}

}  // namespace minuet
