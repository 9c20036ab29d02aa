// The kernel mark_voxels marks the voxel of each coordinate in its block, in each level. Each thread
// handles one coordinate. row_of[i] becomes the place of coordinate i's voxel in level 0, which is (number
// of its block) * 64 + (number of the voxel in the block). The kernel number_points replaces this place by
// the row.
//
// A thread that finds its voxel marked by another thread leaves the later levels to that thread, as in
// mark_blocks.
#pragma once

#include "kernels_templates/core/early_loads.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/find_voxel.h"
#include "kernels_templates/map/index_points.h"
#include "kernels_templates/map/take_slot.h"

namespace minuet {

template <MarkVoxelsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void mark_voxels(MINUET_PARAMS(IndexParams) p) {
  const VoxelIndex& index = p.description;
  // The launch right before this one is number_blocks, which writes neither the coordinates nor their number.
  const i64 points = read_early(p.points), first = grid_thread(S.threads);
  i32 coordinate[S.ndim + 1];
  if (first < points) {
    MINUET_UNROLL
    for (i32 f = 0; f <= S.ndim; ++f) coordinate[f] = read_early(p.coordinates + first * (S.ndim + 1) + f);
  }
  follow_last_launch();
  if (fresh(p.status) != 0) return;
  if (!blocks_fit(p)) {
    if (grid_thread(S.threads) == 0) atomicOr(p.status, kStatusPastCapacity);
    return;
  }
  u32 status = 0;
  for (i64 i = first; i < points; i += grid_threads(S.threads)) {
    if (i != first) read_point<S.ndim>(p, index, i, coordinate);
    bool is_new = true;
    Voxel voxel = voxel_of<S.ndim>(index.level[0], coordinate);
    FoundSuperblock found = read_superblock_at(index.level[0], static_cast<u32>(fresh(p.row_of + i)));
    for (i32 l = 0; l < p.end_level; ++l) {
      const IndexLevel& level = index.level[l];
      const Voxel own = voxel;
      const FoundSuperblock own_found = found;
      SuperblockName name{};
      // The hash-table slot of the next level is loaded while the voxel block of this level is updated.
      if (l + 1 < p.end_level) {
        voxel = voxel_of<S.ndim>(index.level[l + 1], coordinate);
        name = superblock_name<S.ndim>(index.keys, index.level[l + 1], voxel);
        found = read_superblock_at(index.level[l + 1], first_slot(index.level[l + 1], name.hash));
      }
      if (!is_new && level.rest_is_nested != 0) break;
      const i32 block = block_in_superblock<S.ndim>(own), place = voxel_in_block<S.ndim>(own);
      const u32 number = own_found.block(block);
      const u64 bit = u64{1} << place;
      is_new = (atomicOr(&level.blocks[number].voxels, bit) & bit) == 0;
      if (l == 0) {
        p.row_of[i] = static_cast<i32>(number * kBlockVoxels + static_cast<u32>(place));
        if (!is_new) status |= p.duplicate_status;
      }
      if (l + 1 < p.end_level) settle(index.level[l + 1], name.key, found);
    }
  }
  if (status != 0) atomicOr(p.status, status);
}

}  // namespace minuet
