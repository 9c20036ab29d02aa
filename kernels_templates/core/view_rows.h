// The rows of a view that lie in a table, the masks that rows make, and the places of an ordered view.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

/// [volume][queries].
struct ViewRows {
  const i32* rows;
  i64 queries;
  i32 volume;

  /// Those of a query at offset `first` and the next ones, -1 past the last offset.
  template <i32 Count>
  MINUET_DEVICE void load(i64 q, i32 first, i32 (&found)[Count]) const {
    const i32* from = rows + first * queries + q;
    MINUET_UNROLL
    for (i32 u = 0; u < Count; ++u, from += queries) found[u] = load_row_if<true>(first + u < volume, from);
  }
};

/// Of a job whose rows are there.
MINUET_DEVICE ViewRows rows_of(const ViewJob& job) {
  return {job.rows, *job.query_count, job.geometry.volume};
}

/// Bit k: found[k] is a row.
template <i32 Count>
MINUET_DEVICE u32 bits_of(const i32 (&found)[Count]) {
  u32 bits = 0;
  MINUET_UNROLL
  for (i32 k = 0; k < Count; ++k) bits |= static_cast<u32>(found[k] >= 0) << k;
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
    bits |= bits_of(found) << k;
  }
  return bits;
}

/// Where a thread is that takes places of ordered views, a block those of one view, one after the other.
struct OrderedPlace {
  i64 place;
  bool is_there;  // the last block of a view has threads past its end
  i64 query;
};
MINUET_DEVICE OrderedPlace find_place(const ViewJob& job, const u32* sorted, i64 block_begin) {
  const i64 place = block_begin + threadIdx.x;
  const bool is_there = place < *job.query_count;
  return {place, is_there, is_there ? static_cast<i64>(fresh(sorted + place)) : 0};
}

/// A word of the mask of its place; and, of its warp's, what any of them has. By whole warps, whose places
/// are a least block.
MINUET_DEVICE void put_ordered_mask(const ViewJob& job, const OrderedPlace& at, i32 word, u32 mask) {
  static_assert(kLeastBlockHeight == 32, "a lane has a place");
  if (at.is_there) job.ordered_masks[word * job.ordered_stride + at.place] = mask;
  const u32 united = __reduce_or_sync(~0u, at.is_there ? mask : 0u);
  if ((threadIdx.x & 31u) != 0 || !at.is_there) return;
  const i64 stride = blocks_of_height(job.ordered_stride, kLeastBlockHeight);
  job.block_masks[word * stride + at.place / kLeastBlockHeight] = united;
}

/// Rows that are there -> their names.
template <i32 Count>
MINUET_DEVICE void name_rows(const i32* names, i32 (&found)[Count]) {
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u) found[u] = load_row_if<true>(found[u] >= 0, names + found[u]);
}

}  // namespace minuet
