// This file counts bits across a warp.
#pragma once

#include "kernels_templates/shared/types.h"

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

}  // namespace minuet
