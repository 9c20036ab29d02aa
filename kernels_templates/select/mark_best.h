// The kernel mark_best sets marks[i] to 1 if candidate i is among the best ones of its batch item, and to 0
// otherwise. The candidates are sorted by their keys, and those with equal keys are in their order, so that
// the candidate at a position of the sorted list is among the first `best` of its item unless the one `best`
// positions before belongs to the same item. NaN is never among them, and is behind all numbers of its item.
// Each thread handles one position at a time.
#pragma once

#include "kernels_templates/select/candidate.h"

namespace minuet {

MINUET_DEVICE u64 sorted_key(const SelectParams& p, i64 position) {
  if (p.key_bytes == 4) return fresh(static_cast<const u32*>(p.sorted_keys) + position);
  return fresh(static_cast<const u64*>(p.sorted_keys) + position);
}

template <MarkBestSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void mark_best(MINUET_PARAMS(SelectParams) p) {
  follow_last_launch();
  const i64 count = fresh(p.sort_count);
  for (i64 i = grid_thread(S.threads); i < count; i += grid_threads(S.threads)) {
    const u64 key = sorted_key(p, i);
    const bool is_past = i >= p.best && sorted_key(p, i - p.best) >> p.score_bits == key >> p.score_bits;
    p.marks[fresh(p.sorted_values + i)] = is_past || is_key_of_nan(key, p.score_bits) ? 0 : 1;
  }
}

}  // namespace minuet
