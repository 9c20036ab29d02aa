// The kernel key_entries gives each corner of each point the row of its voxel as a key, or past_key if it has
// none. Each thread handles one corner of a point at a time.
#pragma once

#include "kernels_templates/points/point_table.h"
#include "kernels_templates/shared/row_gradient_kernels.h"

namespace minuet {

template <KeyEntriesSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void key_entries(MINUET_PARAMS(EntriesParams) p) {
  follow_last_launch();
  const i64 points = count_within(p.count, p.most), rows = count_within(p.row_count, p.most_rows);
  const i64 thread = grid_thread(S.threads), step = grid_threads(S.threads);
  if (thread == 0) *p.sort_count = static_cast<i32>(p.entries);
  RowIterator at(thread, step, p.most);
  for (i64 entry = thread; entry < p.entries; entry += step, at.advance()) {
    const i32 row = at.inner() < points ? fresh(p.rows + entry) : -1;
    p.keys[entry] = row >= 0 && row < rows ? static_cast<u32>(row) : p.past_key;
    p.values[entry] = static_cast<u32>(entry);
  }
}

}  // namespace minuet
