// Spec (compile time) and Params (run time) of the kernels that make further views of a kernel map from its
// rows. `queries` is the side that asks: the coarser one, or, of transposed rows, the finer one.
#pragma once

#include "kernels_templates/shared/fused_kernels.h"

namespace minuet {

/// Bits of each query's neighbours, and how many queries have each.
struct MakeMasksSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct MakeMasksParams {
  const i32* rows;         // [volume][queries] a row of the other side, or -1
  const i32* query_count;  // device
  i32 volume;
  u32* masks;   // [mask_words(volume)][queries] bit k % 32 of word k / 32: rows[k] is a row; others are 0
  u32* counts;  // [volume] pairs are added to it; or null
};

/// Most offsets that a rank looks at: those farthest from the centre.
constexpr i32 kMostRankedOffsets = 32;

/// Masks -> sort keys under which queries of like masks are near each other, full ones first.
struct RankMasksSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct RankMasksParams {
  const u32* masks;
  const i32* query_count;           // device
  i32 ranked;                       // how many of `offsets` there are
  i32 offsets[kMostRankedOffsets];  // the highest bit's first
  u32* keys;                        // [queries] of `ranked` bits
  u32* queries;                     // [queries] 0, 1, 2, ...
};

/// The number whose Gray code is `code`: each bit is the parity of the code's bits from there up.
MINUET_HD constexpr u32 gray_rank(u32 code) {
  for (i32 step = 1; step < 32; step *= 2) code ^= code >> step;
  return code;
}
/// The sort key of query `q`: next to it are masks that differ in few of the offsets, and those that have the
/// first of them come first.
MINUET_HD constexpr u32 rank_mask(const u32* masks, i64 queries, i64 q, const i32* offsets, i32 ranked) {
  u32 code = 0;
  for (i32 i = 0; i < ranked; ++i) {
    code = code << 1 | (masks[offsets[i] / 32 * queries + q] >> offsets[i] % 32 & 1u);
  }
  return ~gray_rank(code) & (~0u >> (32 - ranked));
}

/// Rows and masks with a column for each position of an order.
struct OrderRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct OrderRowsParams {
  const i32* rows;         // [volume][queries]
  const u32* masks;        // [mask_words(volume)][queries]
  const i32* order;        // [queries] the query of a position
  const i32* query_count;  // device
  i32 volume;
  i64 ordered_stride;  // of what follows: at least the number of queries
  i32* ordered_rows;
  u32* ordered_masks;
};

/// The rows by which the finer side asks the coarser one.
struct TransposeRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct TransposeRowsParams {
  const i32* rows;          // [volume][queries] source row or -1; no source twice at one offset
  const i32* query_count;   // device
  const i32* source_count;  // device
  i32 volume;
  i32* transposed;  // [volume][sources] query row or -1, preset to -1
};

}  // namespace minuet
