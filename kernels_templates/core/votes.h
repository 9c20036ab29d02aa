// Votes of a warp.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// To lane k: how many lanes of the warp have bit k. Lanes and bits change places, halves of halves at a
/// time.
MINUET_DEVICE u32 count_votes(u32 bits) {
  u32 low = 0xffffu;  // bits that stay in lanes without bit `distance`
  MINUET_UNROLL
  for (u32 distance = 16; distance != 0; distance /= 2, low ^= low << distance) {
    const u32 other = __shfl_xor_sync(~0u, bits, distance);
    bits = (threadIdx.x & distance) == 0 ? (bits & low) | (other & low) << distance
                                         : (bits & ~low) | (other & ~low) >> distance;
  }
  return static_cast<u32>(__popc(bits));
}

}  // namespace minuet
