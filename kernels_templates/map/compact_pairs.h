// sources, targets[positions[k][q]] = map[k][q], q where the map hits: pairs by offset, then by query.
//
// One thread a map entry.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <CompactPairsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void compact_pairs(const CompactPairsParams p) {
  const i64 entries = p.queries * p.volume;
  const i64 stride = grid_threads(S.threads);
  RowWalk walk(grid_thread(S.threads), stride, p.queries);
  for (i64 i = grid_thread(S.threads); i < entries; i += stride, walk.advance()) {
    const i32 source = read_only(p.map + i);
    if (source < 0) continue;
    const i32 pair = read_only(p.positions + i);
    p.sources[pair] = source;
    p.targets[pair] = static_cast<i32>(walk.inner());
  }
}

}  // namespace minuet
