// The kernel unique writes the distinct keys of the sorted keys to unique_keys, in the same order. source_row
// and row_of map between the caller's rows and unique rows.
//
// Each thread handles one key. Key i belongs to unique row u = positions[i + 1] - 1 and is the first of its
// run of equal keys if positions[i + 1] != positions[i]. The sort is stable, so the first key of a run has
// the caller's first row with that key.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <UniqueSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void unique(MINUET_PARAMS(UniqueParams) p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  const i64 count = *p.count;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    const i32 unique = p.positions[count];
    const u32 status =
        (unique > p.capacity ? kStatusPastCapacity : 0) | (unique < count ? p.duplicate_status : 0);
    if (status != 0) atomicOr(p.status, status);
    *p.unique_count = unique > p.capacity ? static_cast<i32>(p.capacity) : unique;
  }
  // The loop is not unrolled, to keep the code small. Few threads have more than one key.
  MINUET_NO_UNROLL
  for (i64 i = grid_thread(S.threads); i < count; i += grid_threads(S.threads)) {
    const i32 before = fresh(p.positions + i);
    const i32 after = fresh(p.positions + i + 1);
    const i32 row = after - 1;
    const bool first = after != before && row < p.capacity;
    if (first) static_cast<Key*>(p.unique_keys)[row] = fresh(static_cast<const Key*>(p.keys) + i);
    if constexpr (S.rows) {
      const u32 source = fresh(p.rows + i);
      if (first && p.source_row != nullptr) p.source_row[row] = static_cast<i32>(source);
      if (p.row_of != nullptr) p.row_of[source] = row;
    }
  }
}

}  // namespace minuet
