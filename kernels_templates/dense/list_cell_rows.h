// The kernel list_cell_rows sets rows[cell_of(coordinates[i])] to i for each row i of a level. Each thread
// handles one row.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/shared/dense_kernels.h"

namespace minuet {

template <ListCellRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void list_cell_rows(MINUET_PARAMS(ListCellRowsParams) p) {
  const i64 count = *p.count;
  for (i64 row = grid_thread(S.threads); row < count; row += grid_threads(S.threads)) {
    i32 coordinate[S.ndim + 1];
    MINUET_UNROLL
    for (i32 f = 0; f <= S.ndim; ++f) coordinate[f] = read_only(p.coordinates + row * (S.ndim + 1) + f);
    const i32 cell = cell_of<S.ndim>(p.grid, coordinate);
    if (cell >= 0) p.rows[cell] = static_cast<i32>(row);
  }
}

}  // namespace minuet
