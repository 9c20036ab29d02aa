// The kernel weigh_corners finds the rows of the 2^ndim voxels around each point, and their weights. A voxel
// that does not exist has the row -1, and the weights of the others are divided by their sum. If the sum is
// 0, all weights are 0. Each thread handles one point at a time.
#pragma once

#include "kernels_templates/points/point_table.h"

namespace minuet {

template <WeighCornersSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void weigh_corners(MINUET_PARAMS(CornersParams) p) {
  follow_last_launch();
  constexpr i32 kCorners = 1 << S.ndim;
  const i64 points = count_within(p.points.count, p.points.most);
  const auto cell_of = [&](i32 row) { return read_row<S.ndim>(p.coordinates, row); };
  for (i64 i = grid_thread(S.threads); i < points; i += grid_threads(S.threads)) {
    float position[S.ndim];
    MINUET_UNROLL
    for (i32 a = 0; a < S.ndim; ++a) position[a] = fresh(p.points.points + i * p.points.ld + a);
    AmongVoxels<S.ndim> among;
    const bool is_there = find_among_voxels<S.ndim>(p.grid, p.tensor_stride, S.at_centres, position, among);
    const i32 batch = p.points.batch == nullptr ? 0 : fresh(p.points.batch + i);
    i32 rows[kCorners];
    float weights[kCorners], sum = 0;
    MINUET_UNROLL
    for (i32 k = 0; k < kCorners; ++k) {
      Cell<S.ndim> cell{batch, {}};
      MINUET_UNROLL
      for (i32 a = 0; a < S.ndim; ++a)
        cell.at[a] = among.cell[a] + ((k >> a & 1) != 0 ? p.tensor_stride[a] : 0);
      rows[k] = is_there ? find_cell<S.ndim>(p.table, p.slots, cell, cell_of) : -1;
      weights[k] = rows[k] < 0 ? 0 : corner_weight<S.ndim>(among, k);
      sum = rounded_sum(sum, weights[k]);
    }
    MINUET_UNROLL
    for (i32 k = 0; k < kCorners; ++k) {
      p.rows[k * p.points.most + i] = rows[k];
      p.weights[k * p.points.most + i] = sum > 0 ? rounded_quotient(weights[k], sum) : 0;
    }
  }
}

}  // namespace minuet
