// The kernel find_entries finds where the entries of each row begin in the sorted list, and where those of
// the last row end. Each thread handles one row at a time, by binary search.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/row_gradient_kernels.h"

namespace minuet {

template <FindEntriesSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void find_entries(MINUET_PARAMS(EntriesParams) p) {
  follow_last_launch();
  for (i64 row = grid_thread(S.threads); row <= p.most_rows; row += grid_threads(S.threads)) {
    i64 low = 0, high = p.entries;
    while (low < high) {
      const i64 middle = (low + high) / 2;
      if (fresh(p.sorted_keys + middle) < row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    p.begins[row] = static_cast<u32>(low);
  }
}

}  // namespace minuet
