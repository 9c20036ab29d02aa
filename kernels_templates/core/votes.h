// This file counts bits, and equal numbers, across a warp.
#pragma once

#include "kernels_templates/core/vector.h"

namespace minuet {

/// Returns to lane k the number of lanes of the warp whose `bits` have bit k set. It transposes the 32 x 32
/// bit matrix by exchanging blocks of 16, 8, 4, 2 and 1 bits between lanes. All 32 lanes must call it.
MINUET_DEVICE u32 count_votes(u32 bits) {
  // Lanes whose number lacks bit `distance` keep these bits in an exchange. The other lanes keep the rest.
  u32 low = 0xffffu;
  MINUET_UNROLL
  for (u32 distance = 16; distance != 0; distance /= 2, low ^= low << distance) {
    const u32 other = __shfl_xor_sync(~0u, bits, distance);
    bits = (threadIdx.x & distance) == 0 ? (bits & low) | (other & low) << distance
                                         : (bits & ~low) | (other & ~low) >> distance;
  }
  return static_cast<u32>(__popc(bits));
}

/// Adds 1 to counts[counter] for each lane, and returns the value that the lane's addition finds if lower
/// lanes add first. A counter of -1 adds nothing. Many lanes have the same counter, so they add with one
/// atomic operation. All 32 lanes must call it.
MINUET_DEVICE u32 count_equal(u32* counts, i32 counter) {
  const u32 lane = threadIdx.x & 31u, same = __match_any_sync(~0u, counter);
  const i32 leader = lowest_bit(same);
  u32 before = 0;
  if (static_cast<i32>(lane) == leader && counter >= 0)
    before = atomicAdd(counts + counter, static_cast<u32>(__popc(same)));
  return __shfl_sync(~0u, before, leader) + static_cast<u32>(__popc(same & ((1u << lane) - 1)));
}

}  // namespace minuet
