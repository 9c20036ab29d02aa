// The kernel finish_selection decides whether the selection is valid, stores its count and status, and fills
// the new rows behind the kept candidates with zeros, and their sources with -1. If the selection is not
// valid, these are all rows, and no candidate has a new row. Each thread handles one row and one candidate at
// a time.
#pragma once

#include "kernels_templates/select/candidate.h"

namespace minuet {

template <FinishSelectionSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void finish_selection(MINUET_PARAMS(SelectParams) p) {
  follow_last_launch();
  // One thread of this launch may set kStatusPastCapacity, so no thread looks at this bit. A number of rows
  // that sets it leaves no candidate.
  const i64 total = fresh(p.total);
  const bool fits = total <= p.capacity;
  const bool is_valid = fits && (fresh(p.status) & ~kStatusPastCapacity) == 0;
  const i64 thread = grid_thread(S.threads), step = grid_threads(S.threads);
  if (thread == 0) {
    *p.count = is_valid ? static_cast<i32>(total) : 0;
    if (!fits) atomicOr(p.status, kStatusPastCapacity);
  }
  for (i64 row = (is_valid ? total : 0) + thread; row < p.capacity; row += step) {
    MINUET_UNROLL
    for (i32 f = 0; f <= S.ndim; ++f) p.selected[row * (1 + S.ndim) + f] = 0;
    if (p.sources != nullptr) p.sources[row] = -1;
    if (p.parents != nullptr) p.parents[row] = -1;
  }
  if (is_valid || p.places == nullptr) return;
  for (i64 i = thread; i < p.candidates.most; i += step) p.places[i] = -1;
}

}  // namespace minuet
