// Finds the voxels around points, for devoxelizing and its gradient.
#pragma once

#include <algorithm>

#include "codegen/choose/ops/points.h"
#include "kernels_templates/shared/point_kernels.h"

namespace minuet {

/// A task of a thread pool handles this many points.
inline constexpr i64 kPointRowsPerTask = 4096;

/// Maps coordinates to rows by a hash table with open addressing. The coordinates of a row are those at
/// `coordinates`, so the table does not store them.
template <i32 Ndim>
class RowTable {
 public:
  RowTable(i32* slots, i64 count, const i32* coordinates)
      : slots_(slots), mask_(static_cast<u32>(count - 1)), coordinates_(coordinates) {}
  void clear() { std::fill_n(slots_, i64{mask_} + 1, kFreeSlot); }
  /// Adds the rows of a level, of which the lowest of equal ones counts.
  void add_rows(i64 rows) {
    for (i64 row = 0; row < rows; ++row) {
      i32& slot = slot_of(coordinates_ + row * (1 + Ndim));
      if (slot == kFreeSlot) slot = static_cast<i32>(row);
    }
  }
  /// Returns the slot that holds the row with these coordinates, or the free slot for it.
  i32& slot_of(const i32* coordinate) {
    u32 slot = hash_of_cell<Ndim>(coordinate[0], coordinate + 1) & mask_;
    while (slots_[slot] != kFreeSlot &&
           !std::equal(coordinate, coordinate + 1 + Ndim, coordinates_ + i64{slots_[slot]} * (1 + Ndim))) {
      slot = (slot + 1) & mask_;
    }
    return slots_[slot];
  }

 private:
  i32* const slots_;
  const u32 mask_;
  const i32* const coordinates_;
};

/// Holds the voxels around a point. A voxel that does not exist has the row -1.
struct Corners {
  i32 rows[1 << kMaxDim];
  float weights[1 << kMaxDim];
};

template <i32 Ndim>
void find_corners(const DevoxelizeProblem& problem, const PointArray& points, RowTable<Ndim>& table, i64 i,
                  Corners& corners) {
  constexpr i32 kCorners = 1 << Ndim;
  AmongVoxels<Ndim> among;
  const bool is_there =
      find_among_voxels<Ndim>(problem.grid, problem.tensor_stride.data(),
                              problem.blend == PointBlend::Centres, points.points + i * points.ld, among);
  float sum = 0;
  for (i32 k = 0; k < kCorners; ++k) {
    i32 coordinate[1 + Ndim] = {points.batch ? points.batch[i] : 0};
    for (i32 a = 0; a < Ndim; ++a)
      coordinate[1 + a] = among.cell[a] + ((k >> a & 1) != 0 ? problem.tensor_stride[a] : 0);
    corners.rows[k] = is_there ? table.slot_of(coordinate) : -1;
    corners.weights[k] = corners.rows[k] < 0 ? 0 : corner_weight<Ndim>(among, k);
    sum = rounded_sum(sum, corners.weights[k]);
  }
  for (i32 k = 0; k < kCorners; ++k)
    corners.weights[k] = sum > 0 ? rounded_quotient(corners.weights[k], sum) : 0;
}

}  // namespace minuet
