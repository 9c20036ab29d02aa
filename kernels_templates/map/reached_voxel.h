// This file computes the voxels of a level of an index (voxel_index.h) that follow from the rows of one of
// its parents, IndexParams::source.parent (reached_cells.h). Each pair of a row of this parent and a cell is
// an item.
#pragma once

#include "kernels_templates/map/row_voxel.h"

namespace minuet {

/// Returns the number of items, which is 0 if the parent has more rows than its capacity.
MINUET_DEVICE i64 reached_items(const IndexParams& p) {
  const u32 rows = static_cast<u32>(fresh(p.index->rows + p.source.parent));
  return rows > p.description.level[p.source.parent].capacity ? 0 : i64{rows} * p.source.cells;
}

/// Returns true if a level of the index has the voxel `voxel` of a level whose voxels are `stride` cells
/// wide. The stride of the level divides that stride.
template <i32 Ndim>
MINUET_DEVICE bool is_in_level(const IndexKeys& keys, const IndexLevel& level, const Voxel& voxel,
                               const i32* stride) {
  Voxel own{};
  own.at[0] = voxel.at[0];
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    const i32 coordinate = voxel.at[a + 1] * stride[a];
    // The keys of the level hold the range of its coordinates only.
    if (coordinate < level.lowest[a] || coordinate > level.highest[a]) return false;
    own.at[a + 1] = coordinate / level.stride[a];
  }
  const SuperblockName name = superblock_name<Ndim>(keys, level, own);
  FoundSuperblock found = read_superblock_at(level, first_slot(level, name.hash));
  settle(level, name.key, found);
  return read_block<false>(true, level, found, block_in_superblock<Ndim>(own)).has(voxel_in_block<Ndim>(own));
}

/// Computes the voxel of item `item`. Returns false if it has none.
template <i32 Ndim>
MINUET_DEVICE bool reached_voxel(const IndexParams& p, i64 item, Voxel& voxel) {
  const u32 cells = static_cast<u32>(p.source.cells);
  // A 64-bit division is several times slower, and nearly all numbers of items fit into 32 bits.
  const i64 row = (item >> 32) == 0 ? static_cast<u32>(item) / cells : item / cells;
  const IndexLevel& parent = p.description.level[p.source.parent];
  const Voxel own = voxel_of_row<Ndim>(p.description.keys, parent, row).voxel;
  i32 coordinate[Ndim + 1] = {own.at[0]};
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) coordinate[a + 1] = own.at[a + 1] * parent.stride[a];
  if (!reached_cell(p.source, Ndim, coordinate, static_cast<i32>(item - row * cells), voxel.at)) return false;
  return p.source.also_in < 0 ||
         is_in_level<Ndim>(p.description.keys, p.description.level[p.source.also_in], voxel, p.source.stride);
}

}  // namespace minuet
