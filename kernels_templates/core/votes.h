// Votes of a warp.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// To lane k: how many lanes of the warp have bit k.
MINUET_DEVICE u32 count_votes(u32 bits) {
  u32 votes = 0;
  MINUET_UNROLL
  for (u32 k = 0; k < 32; ++k) {
    const u32 of_bit = __ballot_sync(~0u, bits >> k & 1u);
    if ((threadIdx.x & 31u) == k) votes = of_bit;
  }
  return __popc(votes);
}

}  // namespace minuet
