// The kernel reach_blocks inserts the superblocks of voxels of level first_level into the level's hash table,
// and marks the occupied blocks in them. These are the voxels that follow from the rows of one parent of the
// level (reached_voxel.h). A union has two parents, so the kernel runs twice for it. Each thread handles one
// item.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/reached_voxel.h"
#include "kernels_templates/map/take_slot.h"

namespace minuet {

template <ReachBlocksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void reach_blocks(MINUET_PARAMS(IndexParams) p) {
  follow_last_launch();
  if (fresh(p.status) != 0) return;
  const IndexLevel& level = p.description.level[p.first_level];
  const i64 items = reached_items(p);
  for (i64 i = grid_thread(S.threads); i < items; i += grid_threads(S.threads)) {
    Voxel voxel{};
    if (!reached_voxel<S.ndim>(p, i, voxel)) continue;
    const SuperblockName name = superblock_name<S.ndim>(p.description.keys, level, voxel);
    WordPair found = read_current(level.table + first_slot(level, name.hash));
    const i32 slot = take_slot(level, name, p.status, found);
    if (slot < 0) {
      atomicOr(p.status, kStatusIndexFull);
      break;
    }
    const u64 bit = u64{1} << block_in_superblock<S.ndim>(voxel);
    if ((found.second & bit) == 0) atomicOr(&level.table[slot].blocks, bit);
  }
}

}  // namespace minuet
