// keys[q] = rank_mask(q), queries[q] = q: sorted by it, queries of like masks lie near each other, and those
// with all neighbours come first. One thread a query.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

template <RankMasksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void rank_masks(const RankMasksParams p) {
  const i64 queries = *p.query_count;
  for (i64 q = grid_thread(S.threads); q < queries; q += grid_threads(S.threads)) {
    p.keys[q] = rank_mask(p.masks, queries, q, p.offsets, p.ranked);
    p.queries[q] = static_cast<u32>(q);
  }
}

}  // namespace minuet
