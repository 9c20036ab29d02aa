// The kernel reach_voxels marks voxels of level first_level in their blocks. These are the voxels that follow
// from the rows of one parent of the level (reached_voxel.h). A union has two parents, so the kernel runs
// twice for it. Each thread handles one item.
#pragma once

#include "kernels_templates/core/current.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/reached_voxel.h"
#include "kernels_templates/map/take_slot.h"

namespace minuet {

template <ReachVoxelsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void reach_voxels(MINUET_PARAMS(IndexParams) p) {
  follow_last_launch();
  if (fresh(p.status) != 0) return;
  if (!blocks_fit(p)) {
    if (grid_thread(S.threads) == 0) atomicOr(p.status, kStatusPastCapacity);
    return;
  }
  const IndexLevel& level = p.description.level[p.first_level];
  const i64 items = reached_items(p);
  for (i64 i = grid_thread(S.threads); i < items; i += grid_threads(S.threads)) {
    Voxel voxel{};
    if (!reached_voxel<S.ndim>(p, i, voxel)) continue;
    const SuperblockName name = superblock_name<S.ndim>(p.description.keys, level, voxel);
    FoundSuperblock found = read_superblock_at(level, first_slot(level, name.hash));
    settle(level, name.key, found);
    VoxelBlock& block = level.blocks[found.block(block_in_superblock<S.ndim>(voxel))];
    const u64 bit = u64{1} << voxel_in_block<S.ndim>(voxel);
    // Many items have the same voxel. Only those that may be the first one pay for an atomic operation.
    if ((read_current(&block).first & bit) == 0) atomicOr(&block.voxels, bit);
  }
}

}  // namespace minuet
