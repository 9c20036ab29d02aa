// The kernel compact_pairs writes the pairs of a kernel map, ordered by offset, then by query. For each
// map[k][q] that is not -1, with n = positions[k][q], it sets sources[n] = map[k][q] and targets[n] = q.
//
// A thread handles several map entries at once, so that their loads overlap.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <CompactPairsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void compact_pairs(MINUET_PARAMS(CompactPairsParams) p) {
  follow_last_launch();
  constexpr i32 kEntriesAtOnce = 4;
  const i64 entries = p.queries * p.volume;
  const i64 stride = grid_threads(S.threads);
  RowIterator walk(grid_thread(S.threads), stride, p.queries);
  for (i64 first = grid_thread(S.threads); first < entries; first += kEntriesAtOnce * stride) {
    i32 source[kEntriesAtOnce], pair[kEntriesAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kEntriesAtOnce; ++u) {
      source[u] = load_row_if<true>(first + u * stride < entries, p.map + first + u * stride);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kEntriesAtOnce; ++u)
      pair[u] = load_row_if<true>(source[u] >= 0, p.positions + first + u * stride);
    MINUET_UNROLL
    for (i32 u = 0; u < kEntriesAtOnce; ++u, walk.advance()) {
      if (pair[u] < 0) continue;
      p.sources[pair[u]] = source[u];
      p.targets[pair[u]] = static_cast<i32>(walk.inner());
    }
  }
}

}  // namespace minuet
