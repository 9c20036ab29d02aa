// This file reads the rows of queries from a table of one direction of a kernel map (ViewJob), and computes
// masks from them. Bit k of a query's mask is set if the query has a row at kernel offset k.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

/// Describes a table of the shape [volume][queries]. It holds the row of each query's neighbour at each
/// kernel offset, or -1.
struct ViewRows {
  const i32* rows;
  i64 queries;
  i32 volume;

  /// Loads the rows of query `q` at `Count` offsets from `first` on, and -1 past the last offset.
  template <i32 Count>
  MINUET_DEVICE void load(i64 q, i32 first, i32 (&found)[Count]) const {
    const i32* from = rows + first * queries + q;
    MINUET_UNROLL
    for (i32 u = 0; u < Count; ++u, from += queries) found[u] = load_row_if<true>(first + u < volume, from);
  }
};

/// Returns the table of a job whose rows have been computed.
MINUET_DEVICE ViewRows rows_of(const ViewJob& job) {
  return {job.rows, *job.query_count, job.geometry.volume};
}

/// Returns a word whose bit k is set if found[k] is a row, not -1.
template <i32 Count>
MINUET_DEVICE u32 bits_of(const i32 (&found)[Count]) {
  u32 bits = 0;
  MINUET_UNROLL
  for (i32 k = 0; k < Count; ++k) bits |= static_cast<u32>(found[k] >= 0) << k;
  return bits;
}

/// Returns word `word` of the mask of query `q`, or 0 past the last query. Bit k of a mask is set if the
/// query has a row at kernel offset k.
MINUET_DEVICE u32 mask_word(const ViewRows& rows, i64 q, i32 word) {
  constexpr i32 kAtOnce = 16;
  u32 bits = 0;
  if (q >= rows.queries) return bits;
  for (i32 k = 0; k < 32 && 32 * word + k < rows.volume; k += kAtOnce) {
    i32 found[kAtOnce];
    rows.load(q, 32 * word + k, found);
    bits |= bits_of(found) << k;
  }
  return bits;
}

}  // namespace minuet
