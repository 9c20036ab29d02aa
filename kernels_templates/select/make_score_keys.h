// The kernel make_score_keys sets keys[i] to a number that orders candidate i by its batch item and then by
// its score, the highest first, and values[i] to i. Each thread handles one candidate at a time.
#pragma once

#include "kernels_templates/select/candidate.h"

namespace minuet {

/// Returns the batch item of a candidate, or -1 if it has a batch index that no item has.
template <MakeScoreKeysSpec S>
MINUET_DEVICE i64 item_of_candidate(const SelectParams& p, i64 candidate) {
  if constexpr (S.source == SelectSource::Cells) return quotient(candidate, p.candidates.grid.cells);
  const i64 row = row_of_candidate<S.source>(p.candidates, candidate);
  const i32 item = fresh(p.candidates.coordinates + row * (1 + S.ndim));
  const bool is_past = p.batch_size > 0 && item >= p.batch_size;
  if (item < 0 || is_past) atomicOr(p.status, item < 0 ? kStatusNegativeBatch : kStatusOutOfBounds);
  return item < 0 || is_past ? -1 : item;
}

template <MakeScoreKeysSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void make_score_keys(MINUET_PARAMS(SelectParams) p) {
  follow_last_launch();
  const i64 count = count_candidates<S.source>(p.candidates), thread = grid_thread(S.threads);
  if (thread == 0) *p.sort_count = static_cast<i32>(count);
  for (i64 i = thread; i < count; i += grid_threads(S.threads)) {
    const i64 item = item_of_candidate<S>(p, i);
    u64 key = score_key<S.io>(score_bits_of<S.io, S.source>(p, i));
    if (item >= 0) key |= static_cast<u64>(item) << p.score_bits;
    if (p.key_bytes == 4) {
      static_cast<u32*>(p.keys)[i] = static_cast<u32>(key);
    } else {
      static_cast<u64*>(p.keys)[i] = key;
    }
    p.values[i] = static_cast<u32>(i);
  }
}

}  // namespace minuet
