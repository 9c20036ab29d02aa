// Metadata tables: pair n of offset k lies in buffer row row_base[k] + n, seen from its query
// (query_table) and from its source (source_table). One thread a map entry.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <MakeTablesSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void make_tables(const MakeTablesParams p) {
  const i64 entries = p.queries * p.volume;
  const i64 stride = grid_threads(S.threads);
  RowWalk walk(grid_thread(S.threads), stride, p.queries);
  for (i64 i = grid_thread(S.threads); i < entries; i += stride, walk.advance()) {
    const i32 source = read_only(p.map + i);
    i32 row = -1;
    if (source >= 0) {
      const i64 k = walk.outer();
      row = read_only(p.row_base + k) + read_only(p.positions + i) - read_only(p.positions + k * p.queries);
      if (k != p.direct_offset) p.source_table[k * p.sources + source] = row;
    }
    p.query_table[i] = row;
  }
}

}  // namespace minuet
