// The kernel make_tables makes the metadata tables, which map queries and sources to rows of the GEMM
// buffers. Pair n of offset k has buffer row row_base[k] + n. The kernel stores this row by query in
// query_table and by source in source_table. Pairs of direct_offset have no buffer row, because the GEMM
// reads their rows in place. A thread handles several map entries at once, so that their loads overlap.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <MakeTablesSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void make_tables(MINUET_PARAMS(MakeTablesParams) p) {
  follow_last_launch();
  constexpr i32 kEntriesAtOnce = 4;
  const i64 entries = p.queries * p.volume;
  const i64 stride = grid_threads(S.threads);
  RowIterator walk(grid_thread(S.threads), stride, p.queries);
  for (i64 first = grid_thread(S.threads); first < entries; first += kEntriesAtOnce * stride) {
    i32 source[kEntriesAtOnce], position[kEntriesAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kEntriesAtOnce; ++u) {
      source[u] = first + u * stride < entries ? p.map[first + u * stride] : -1;
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kEntriesAtOnce; ++u) {
      position[u] = load_row_if<true>(source[u] >= 0, p.positions + first + u * stride);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kEntriesAtOnce; ++u, walk.advance()) {
      const i64 k = walk.outer();
      i32 row = -1;
      if (source[u] >= 0 && k != p.direct_offset) {
        row = fresh(p.row_base + k) + position[u] - fresh(p.positions + k * p.queries);
        p.source_table[k * p.sources + source[u]] = row;
      }
      if (first + u * stride < entries) p.query_table[first + u * stride] = row;
    }
  }
}

}  // namespace minuet
