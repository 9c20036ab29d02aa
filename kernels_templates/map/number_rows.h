// The kernel number_rows sets first_row of each block to the number of occupied voxels of the blocks
// before it. It also writes the place of each row (RowPlace) and the number of rows of each level. Each
// thread handles one block. The launch has a thread for each block of a level's capacity.
#pragma once

#include "kernels_templates/core/current.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/tile_sums.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/voxel_index.h"

namespace minuet {

/// Writes the places (RowPlace) of the rows in each lane's block of voxels. If one of these blocks has
/// many rows, all lanes of the warp share the work for each block.
MINUET_DEVICE void store_places(const IndexLevel& level, u64 voxels, u32 row, u32 number, u32 place) {
  constexpr u32 kFewVoxels = 8;
  const u32 lane = threadIdx.x & 31u, count = static_cast<u32>(count_bits64(voxels));
  const auto store = [&](u32 at, u32 voxel, u32 block) {
    if (at < level.capacity) store_vector<8>(level.rows, i64{at} * 8, Vector<8>{{voxel, block}});
  };
  if (__reduce_max_sync(~0u, count) <= kFewVoxels) {
    for (; voxels != 0; voxels &= voxels - 1, ++row)
      store(row, number * kBlockVoxels + static_cast<u32>(lowest_bit64(voxels)), place);
    return;
  }
  // The inner loop is unrolled, so that the shuffles of kAtOnce voxel blocks overlap.
  constexpr i32 kAtOnce = 4;
  for (i32 first = 0; first < 32; first += kAtOnce) {
    MINUET_UNROLL
    for (i32 source = first; source < first + kAtOnce; ++source) {
      const u64 of_source = __shfl_sync(~0u, voxels, source);
      const u32 start = __shfl_sync(~0u, row, source), block = __shfl_sync(~0u, number, source);
      const u32 at = __shfl_sync(~0u, place, source);
      MINUET_UNROLL
      for (u32 v = lane; v < kBlockVoxels; v += 32) {
        if ((of_source >> v & 1u) == 0) continue;
        const u32 before = static_cast<u32>(count_bits64(of_source & bits_below(static_cast<i32>(v))));
        store(start + before, block * kBlockVoxels + v, at);
      }
    }
  }
}

template <NumberRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void number_rows(MINUET_PARAMS(IndexParams) p) {
  follow_last_launch();
  static_assert(S.threads == kBlockTile, "a thread has a block");
  i32 l = p.first_level;
  while (blockIdx.x >= p.block_tiles_end[l]) ++l;
  const i32 tile = static_cast<i32>(blockIdx.x - (l > p.first_level ? p.block_tiles_end[l - 1] : 0));
  const IndexLevel& level = p.description.level[l];
  const u32 status = fresh(p.status), blocks = static_cast<u32>(fresh(p.index->blocks + l)),
            begin = static_cast<u32>(tile) * kBlockTile;
  if (status != 0 || (begin >= blocks && tile > 0)) return;
  const u32 number = begin + threadIdx.x;
  const WordPair own = read_pair_if(number < blocks, level.blocks + (number < blocks ? number : 0u));
  const u32 count = static_cast<u32>(count_bits64(own.first));
  const u32 row = sum_before<S.threads>(count, level.block_sums, tile);
  if (number < blocks) level.blocks[number].first_row = static_cast<i32>(row);
  if (number + 1 == blocks || (blocks == 0 && number == 0)) {
    const u32 rows = row + count;
    p.index->rows[l] = static_cast<i32>(rows);
    *p.counts[l] = static_cast<i32>(rows < level.capacity ? rows : level.capacity);
    // All other thread blocks of the level have read the status before, because this one knows their sums.
    if (rows > level.capacity && p.rows_status != 0) atomicOr(p.status, p.rows_status);
  }
  store_places(level, own.first, row, number, static_cast<u32>(own.second >> 32));
}

}  // namespace minuet
