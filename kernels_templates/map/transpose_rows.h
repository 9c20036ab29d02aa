// transposed[k][rows[k][q]] = q. One thread an entry: no source has two queries at one offset.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

template <TransposeRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void transpose_rows(const TransposeRowsParams p) {
  const i64 queries = *p.query_count, sources = *p.source_count;
  const i64 entries = queries * p.volume, stride = grid_threads(S.threads);
  RowWalk walk(grid_thread(S.threads), stride, queries);
  for (i64 i = grid_thread(S.threads); i < entries; i += stride, walk.advance()) {
    const i32 source = read_only(p.rows + i);
    if (source >= 0) p.transposed[walk.outer() * sources + source] = static_cast<i32>(walk.inner());
  }
}

}  // namespace minuet
