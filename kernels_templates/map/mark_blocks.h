// The kernel mark_blocks inserts the superblock of each coordinate into the hash table of each level, and
// marks the coordinate's block in it. Each thread handles one coordinate. row_of[i] becomes the slot of
// the superblock of coordinate i in level 0, or -1 if the coordinate is refused.
//
// If another thread has marked the same block before, that thread also marks the blocks of the later
// levels, provided that these are unions of blocks of the level before (IndexLevel::rest_is_nested). A
// thread that finds its block marked can then go on to its next coordinate.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/index_points.h"
#include "kernels_templates/map/take_slot.h"

namespace minuet {

template <MarkBlocksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void mark_blocks(MINUET_PARAMS(IndexParams) p) {
  follow_last_launch();
  const VoxelIndex& index = p.description;
  const i64 points = *p.points;
  for (i64 i = grid_thread(S.threads); i < points; i += grid_threads(S.threads)) {
    i32 coordinate[S.ndim + 1];
    const u32 status = read_point<S.ndim>(p, index, i, coordinate);
    p.row_of[i] = -1;
    if (status != 0) {
      atomicOr(p.status, status);
      continue;
    }
    bool is_new = true;
    Voxel voxel = voxel_of<S.ndim>(index.level[0], coordinate);
    SuperblockName name = superblock_name<S.ndim>(index.keys, index.level[0], voxel);
    WordPair found = read_current(index.level[0].table + first_slot(index.level[0], name.hash));
    for (i32 l = 0; l < p.end_level; ++l) {
      const IndexLevel& level = index.level[l];
      const Voxel own = voxel;
      const SuperblockName own_name = name;
      WordPair own_found = found;
      // The hash-table slot of the next level is loaded while that of this level is updated.
      if (l + 1 < p.end_level) {
        voxel = voxel_of<S.ndim>(index.level[l + 1], coordinate);
        name = superblock_name<S.ndim>(index.keys, index.level[l + 1], voxel);
        found = read_current(index.level[l + 1].table + first_slot(index.level[l + 1], name.hash));
      }
      if (!is_new && level.rest_is_nested != 0) break;
      const i32 slot = take_slot(level, own_name, p.status, own_found);
      if (slot < 0) {
        atomicOr(p.status, kStatusIndexFull);
        break;
      }
      if (l == 0) p.row_of[i] = slot;
      const u64 bit = u64{1} << block_in_superblock<S.ndim>(own);
      is_new = (own_found.second & bit) == 0 && (atomicOr(&level.table[slot].blocks, bit) & bit) == 0;
    }
  }
}

}  // namespace minuet
