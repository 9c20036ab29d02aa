// The kernel insert_points inserts each point into the hash table of cells, whose slots then hold the lowest
// point of each cell, and sets slot_of[i] to the slot of point i. It sets slot_of[i] to -1 and counts the
// point if the point has no cell. It counts the points of each slot too, and gives each point a place among
// them, which depends on the order in which threads arrive. Each thread handles one point at a time.
#pragma once

#include "kernels_templates/core/votes.h"
#include "kernels_templates/points/point_table.h"

namespace minuet {

template <InsertPointsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void insert_points(MINUET_PARAMS(VoxelizeParams) p) {
  follow_last_launch();
  const i64 points = count_within(p.points.count, p.points.most);
  if (grid_thread(S.threads) == 0) {
    *p.point_count = static_cast<i32>(points);
    if (p.points.count != nullptr && fresh(p.points.count) != points) atomicOr(p.status, kStatusPastCapacity);
  }
  const i64 lane = threadIdx.x & 31u;
  for (i64 first = grid_thread(S.threads) - lane; first < points; first += grid_threads(S.threads)) {
    const i64 i = first + lane;
    i32 counter = -1, slot = -1;
    if (i < points) {
      Cell<S.ndim> cell;
      const PointFate fate = read_cell<S.ndim>(p.points, p.grid, i, cell);
      if (fate == PointFate::NotFinite) {
        counter = kCountNotFinite;
      } else if (fate == PointFate::Outside) {
        counter = kCountOutside;
      } else if (cell.batch < 0) {
        atomicOr(p.status, kStatusNegativeBatch);
      } else if (p.batch_size > 0 && cell.batch >= p.batch_size) {
        atomicOr(p.status, kStatusOutOfBounds);
      } else {
        slot = take_cell<S.ndim>(p.table, p.slots, cell, static_cast<i32>(i), [&](i32 other) {
          Cell<S.ndim> of_other;
          read_cell<S.ndim>(p.points, p.grid, other, of_other);
          return of_other;
        });
      }
      p.slot_of[i] = slot;
    }
    const u32 place = count_equal(p.points_in, slot);
    if (slot >= 0) p.place_of[i] = place;
    count_equal(reinterpret_cast<u32*>(p.counts), counter);
  }
}

}  // namespace minuet
