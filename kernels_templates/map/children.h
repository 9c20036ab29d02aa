// This file computes the places of the children of a voxel, which are the voxels of a finer level that lie
// in a voxel of a coarser level, their parent. The kernel's offsets must lead from a parent to exactly its
// children (fills_voxels() in set_index.h), of which there are one or two per axis. All children of a
// voxel lie in one block of the finer level.
#pragma once

#include "kernels_templates/map/row_voxel.h"

namespace minuet {

static_assert(1 << kMaxDim <= 32, "one word has all places of a voxel");

/// Returns the number of the kernel offset that leads from a parent voxel to its child. `place` is the
/// number of the child in its block (VoxelBlock).
template <i32 Ndim>
MINUET_HD constexpr i32 child_offset(const KernelGeometry& geometry, i32 place) {
  i32 offset = 0, weight = 1;
  MINUET_UNROLL
  for (i32 a = Ndim - 1; a >= 0; --a) {
    const i32 size = geometry.kernel_size[a];
    offset += (place & (size - 1)) * weight;
    weight *= size;
    place >>= block_bits(Ndim, a);
  }
  return offset;
}

/// Returns the number, in its block (VoxelBlock), of the child voxel at kernel offset number `offset`.
/// `parent` is the number of the parent voxel in the parent's own block.
template <i32 Ndim>
MINUET_HD constexpr i32 child_place(const KernelGeometry& geometry, i32 parent, i32 offset) {
  i32 place = 0, weight = 0;
  MINUET_UNROLL
  for (i32 a = Ndim - 1; a >= 0; --a) {
    const i32 size = geometry.kernel_size[a], bits = block_bits(Ndim, a), mask = (1 << bits) - 1;
    place |= (((parent * size) & mask) + (offset & (size - 1))) << weight;
    offset >>= size - 1;
    parent >>= bits;
    weight += bits;
  }
  return place;
}

/// Returns the number, in its block (VoxelBlock), of the voxel of a row.
MINUET_DEVICE i32 place_of_row(const IndexLevel& level, i64 row) {
  return static_cast<i32>(fresh(&level.rows[row].voxel) % kBlockVoxels);
}

}  // namespace minuet
