// This file finds the voxel of a row of an index (voxel_index.h).
#pragma once

#include "kernels_templates/map/find_voxel.h"

namespace minuet {

template <i32 Ndim>
struct RowVoxel {
  Voxel voxel;
  FoundSuperblock superblock;
};

template <i32 Ndim>
MINUET_DEVICE RowVoxel<Ndim> voxel_of_row(const IndexKeys& keys, const IndexLevel& level, i64 row) {
  const Vector<8> place = load_vector_if<8, true>(true, level.rows, row * 8);
  const u32 voxel = place.words[0] % kBlockVoxels, block = place.words[1] % kBlockVoxels;
  const FoundSuperblock superblock = read_superblock_at(level, place.words[1] / kBlockVoxels);
  return {voxel_at<Ndim>(keys, level, superblock.key, static_cast<i32>(block), static_cast<i32>(voxel)),
          superblock};
}

}  // namespace minuet
