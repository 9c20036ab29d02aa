// The kernel assign_rows sets rows[i] to the row of the voxel of point i, or to -1 if the point has none. It
// lists the points of each voxel from begins[row] on, or, if they must be sorted, makes the keys of the sort.
// Each thread handles one point at a time.
#pragma once

#include "kernels_templates/core/votes.h"
#include "kernels_templates/points/point_table.h"

namespace minuet {

template <AssignRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void assign_rows(MINUET_PARAMS(VoxelizeParams) p) {
  follow_last_launch();
  const i64 points = fresh(p.point_count), lane = threadIdx.x & 31u;
  const bool is_valid = fresh(p.status) == 0, sorts = fresh(p.sort_count) != 0;
  for (i64 first = grid_thread(S.threads) - lane; first < p.points.most; first += grid_threads(S.threads)) {
    const i64 i = first + lane;
    bool is_past = false;
    if (i < p.points.most) {
      const i32 slot = is_valid && i < points ? fresh(p.slot_of + i) : -1;
      const i32 row = slot < 0 ? -1 : fresh(p.first_rows + fresh(p.table + slot));
      is_past = row >= p.most_voxels;
      const bool is_there = row >= 0 && !is_past;
      if (p.rows != nullptr) p.rows[i] = is_there ? row : -1;
      if (sorts) {
        p.keys[i] = is_there ? static_cast<u32>(row) : p.past_key;
        p.values[i] = static_cast<u32>(i);
      } else if (is_there) {
        p.list[fresh(p.begins + row) + fresh(p.place_of + i)] = static_cast<u32>(i);
      }
    }
    count_equal(reinterpret_cast<u32*>(p.counts), is_past ? kCountPastVoxels : -1);
  }
}

}  // namespace minuet
