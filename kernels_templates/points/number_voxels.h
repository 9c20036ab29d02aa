// The kernel number_voxels gives rows to the voxels in the order of their first points. If point i is the
// first of its voxel, first_rows[i] is the voxel's row, and begins[row] is the number of points of the voxels
// with lower rows. begins[number of voxels] is the number of points of all voxels. The kernel stores the
// number of voxels too, and whether the points must be sorted. Each thread handles one point.
#pragma once

#include "kernels_templates/core/tile_sums.h"
#include "kernels_templates/points/point_table.h"

namespace minuet {

template <NumberVoxelsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void number_voxels(MINUET_PARAMS(VoxelizeParams) p) {
  follow_last_launch();
  const i32 tile = static_cast<i32>(blockIdx.x);
  const i64 points = fresh(p.point_count), begin = i64{tile} * S.threads;
  if (begin >= points && tile > 0) return;
  const i64 i = begin + threadIdx.x;
  const i32 slot = i < points ? fresh(p.slot_of + i) : -1;
  const bool is_first = slot >= 0 && fresh(p.table + slot) == i;
  const u32 points_in = is_first ? fresh(p.points_in + slot) : 0;
  const u32 row = sum_before<S.threads>(is_first ? 1u : 0u, p.tiles, tile);
  __syncthreads();  // Both sums use the same shared memory.
  const u32 list_begin = sum_before<S.threads>(points_in, p.begin_tiles, tile);
  if (is_first) {
    p.first_rows[i] = static_cast<i32>(row);
    p.begins[row] = list_begin;
    if (points_in > kUnsortedPoints) *p.sort_count = static_cast<i32>(points);
  }
  if (i + 1 != points && (points > 0 || i > 0)) return;
  p.begins[row + (is_first ? 1 : 0)] = list_begin + points_in;
  const u32 status = fresh(p.status);
  const i64 all = i64{row} + (is_first ? 1 : 0), voxels = all < p.most_voxels ? all : p.most_voxels;
  const bool fits = voxels <= p.capacity;
  if (status == 0 && !fits) atomicOr(p.status, kStatusPastCapacity);
  p.counts[kCountVoxels] = status == 0 && fits ? static_cast<i32>(voxels) : 0;
}

}  // namespace minuet
