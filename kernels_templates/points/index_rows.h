// The kernel index_rows inserts the rows of a level into a hash table of cells. Of rows with equal
// coordinates, the slot holds the lowest. Each thread handles one row at a time.
#pragma once

#include "kernels_templates/points/point_table.h"

namespace minuet {

template <IndexRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void index_rows(MINUET_PARAMS(CornersParams) p) {
  follow_last_launch();
  const i64 rows = count_within(p.row_count, p.most_rows);
  const auto cell_of = [&](i32 row) { return read_row<S.ndim>(p.coordinates, row); };
  for (i64 row = grid_thread(S.threads); row < rows; row += grid_threads(S.threads)) {
    const i32 number = static_cast<i32>(row);
    take_cell<S.ndim>(p.table, p.slots, cell_of(number), number, cell_of);
  }
}

}  // namespace minuet
