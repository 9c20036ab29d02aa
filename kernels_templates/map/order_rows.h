// ordered_rows[k][i] = rows[k][order[i]], and the same of the masks' words. One thread an entry.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

template <OrderRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void order_rows(const OrderRowsParams p) {
  const i64 queries = *p.query_count, stride = grid_threads(S.threads);
  const i64 row_entries = queries * p.volume, entries = row_entries + queries * mask_words(p.volume);
  RowWalk walk(grid_thread(S.threads), stride, queries);
  for (i64 i = grid_thread(S.threads); i < entries; i += stride, walk.advance()) {
    const i64 query = read_only(p.order + walk.inner()), word = walk.outer() - p.volume;
    if (i < row_entries) {
      p.ordered_rows[walk.outer() * p.ordered_stride + walk.inner()] =
          read_only(p.rows + walk.outer() * queries + query);
    } else {
      p.ordered_masks[word * p.ordered_stride + walk.inner()] = read_only(p.masks + word * queries + query);
    }
  }
}

}  // namespace minuet
