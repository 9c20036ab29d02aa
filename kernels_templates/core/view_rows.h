// The rows of a view, which lie in either of two ways, and the masks that they make.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

/// [volume][queries], or, by query, [queries][query_words(volume)].
struct ViewRows {
  const i32* rows;
  i64 queries;
  i32 volume;
  bool by_query;

  /// Those of a query at offset `first`, a multiple of 4, and the next ones; past the last offset anything.
  template <i32 Count>
  MINUET_DEVICE void load(i64 q, i32 first, i32 (&found)[Count]) const {
    static_assert(Count % 4 == 0, "whole vectors");
    if (by_query) {
      const i64 start = q * query_words(volume) + first;
      MINUET_UNROLL
      for (i32 u = 0; u < Count; u += 4) {
        const Vector<16> four = load_vector_if<16, true>(first + u < volume, rows, 4 * (start + u));
        MINUET_UNROLL
        for (i32 w = 0; w < 4; ++w) found[u + w] = static_cast<i32>(four.words[w]);
      }
    } else {
      const i32* from = rows + first * queries + q;
      MINUET_UNROLL
      for (i32 u = 0; u < Count; ++u, from += queries) found[u] = load_row_if<true>(first + u < volume, from);
    }
  }
};

/// Of a job whose rows are there.
MINUET_DEVICE ViewRows rows_of(const ViewJob& job) {
  return {job.rows, *job.query_count, job.volume, job.by_query != 0};
}

/// Bit k: there is a row at offset first + k of `volume`.
template <i32 Count>
MINUET_DEVICE u32 bits_of(const i32 (&found)[Count], i32 first, i32 volume) {
  u32 bits = 0;
  MINUET_UNROLL
  for (i32 k = 0; k < Count; ++k) {
    if (first + k < volume && found[k] >= 0) bits |= 1u << k;
  }
  return bits;
}

/// A word of the mask of query `q`; 0 past the last query.
MINUET_DEVICE u32 mask_word(const ViewRows& rows, i64 q, i32 word) {
  constexpr i32 kAtOnce = 16;
  u32 bits = 0;
  if (q >= rows.queries) return bits;
  for (i32 k = 0; k < 32 && 32 * word + k < rows.volume; k += kAtOnce) {
    i32 found[kAtOnce];
    rows.load(q, 32 * word + k, found);
    bits |= bits_of(found, 32 * word + k, rows.volume) << k;
  }
  return bits;
}

}  // namespace minuet
