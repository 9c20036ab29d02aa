// The kernel number_points sets row_of[i] to the row of coordinate i, and source_row[r] to the least i
// whose row is r. Each thread handles one coordinate. The kernel sets the status if a level has more rows
// than its capacity. If the status has a bit set then, the kernel sets the words at IndexParams::voided to 0.
#pragma once

#include "kernels_templates/core/early_loads.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/find_voxel.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <NumberPointsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void number_points(MINUET_PARAMS(IndexParams) p) {
  // The launch right before this one is number_rows, which writes neither the places nor the number of
  // coordinates.
  const i64 thread = grid_thread(S.threads), points = read_early(p.points);
  const i32 first = thread < points ? read_early(p.row_of + thread) : 0;
  follow_last_launch();
  const VoxelIndex& index = p.description;
  const u32 status = fresh(p.status);
  if (thread < 32) {
    static_assert(kMostIndexedLevels <= 32, "a lane has a level");
    const i32 l = static_cast<i32>(thread);
    bool is_full = false;
    if (l < index.levels) is_full = static_cast<u32>(fresh(p.index->rows + l)) > index.level[l].capacity;
    if (is_full) atomicOr(p.status, kStatusPastCapacity);
    const bool has_failed = __any_sync(~0u, is_full || status != 0);
    for (i32 word = l; p.voided != nullptr && has_failed && word < p.voided_words; word += 32)
      p.voided[word] = 0;
  }
  if (status != 0) return;
  const IndexLevel& level = index.level[0];
  for (i64 i = thread; i < points; i += grid_threads(S.threads)) {
    const u32 place = static_cast<u32>(i == thread ? first : fresh(p.row_of + i));
    const WordPair block = read_pair(level.blocks + place / kBlockVoxels);
    const FoundBlock found{block.first, static_cast<i32>(block.second)};
    const i32 row = found.row(static_cast<i32>(place % kBlockVoxels));
    p.row_of[i] = row;
    if (p.source_row != nullptr && static_cast<u32>(row) < level.capacity)
      atomicMin(p.source_row + row, static_cast<i32>(i));
  }
}

}  // namespace minuet
