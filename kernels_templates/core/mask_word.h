// Which offsets a query has a row at, as bits.
#pragma once

#include "kernels_templates/core/grid.h"

namespace minuet {

/// Bit k: query `q` has a row at offset first + k. Of `offsets` offsets, at most 32; no bits past the last
/// query.
MINUET_DEVICE u32 mask_word(const i32* rows, i64 queries, i64 q, i32 first, i32 offsets) {
  u32 bits = 0;
  MINUET_UNROLL
  for (i32 k = 0; k < 32; ++k) {
    if (k < offsets && q < queries && read_only(rows + (first + k) * queries + q) >= 0) bits |= 1u << k;
  }
  return bits;
}

}  // namespace minuet
