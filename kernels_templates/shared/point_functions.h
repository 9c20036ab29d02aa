// This file computes the cell of a point and what the kernels of kernels_templates/points and the CPU device
// do with the numbers of a point. Both get the same bits, so every product and sum of floats is rounded on
// its own, and no device compiler fuses them.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Selects how the features of a voxel follow from those of its points.
enum class PointReduction : i32 { Mean, Max, Sum, First };

/// Describes the cells of the points of a cloud. The cell of a position p is floor((p - low) / size) on each
/// axis, in fp32. With a range, only the cells from 0 to cells - 1 exist, and only for positions p with low
/// <= p < high.
struct PointGrid {
  float low[kMaxDim], high[kMaxDim], size[kMaxDim];
  i32 cells[kMaxDim];
  i32 has_range;
};

/// Says what becomes of a point.
enum class PointFate : i32 { Kept, Outside, NotFinite };

MINUET_HD float rounded_sum(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
MINUET_HD float rounded_product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
MINUET_HD float rounded_quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
MINUET_HD float rounded_down(float a) {
#if defined(__CUDA_ARCH__)
  return floorf(a);
#else
  return __builtin_floorf(a);
#endif
}
MINUET_HD bool is_finite_number(float a) { return a - a == 0; }

/// Returns the position in cells, before it is rounded down.
MINUET_HD float cells_from_low(const PointGrid& grid, i32 axis, float position) {
  return rounded_quotient(rounded_sum(position, -grid.low[axis]), grid.size[axis]);
}

/// Finds the cell of a position. A cell that int32 cannot hold is outside.
template <i32 Ndim>
MINUET_HD PointFate cell_of_point(const PointGrid& grid, const float* position, i32* cell) {
  constexpr float kLimit = 2147483648.0f;
  bool is_finite = true, is_inside = true;
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    const float p = position[a], at = rounded_down(cells_from_low(grid, a, p));
    is_finite = is_finite && is_finite_number(p);
    const bool fits = at >= -kLimit && at < kLimit;
    cell[a] = fits ? static_cast<i32>(at) : 0;
    is_inside = is_inside && fits;
    if (grid.has_range != 0) {
      is_inside = is_inside && p >= grid.low[a] && p < grid.high[a] && cell[a] < grid.cells[a];
    }
  }
  return !is_finite ? PointFate::NotFinite : is_inside ? PointFate::Kept : PointFate::Outside;
}

/// Adds the number `value` of point number `count` of a voxel, counted from 0, to `sum`.
template <PointReduction R>
MINUET_HD void add_point(double& sum, double value, i64 count) {
  if constexpr (R == PointReduction::First) {
    if (count == 0) sum = value;
  } else if constexpr (R == PointReduction::Max) {
    // NaN differs from itself. It replaces every number, and no number replaces it.
    if (count == 0 || value > sum || value != value) sum = value;
  } else {
    sum = count == 0 ? value : sum + value;
  }
}
/// Returns the feature of a voxel with `count` points, rounded to fp32 once.
template <PointReduction R>
MINUET_HD float feature_of_points(double sum, i64 count) {
  return static_cast<float>(R == PointReduction::Mean ? sum / static_cast<double>(count) : sum);
}

/// Selects the voxels from which a point takes its features, and their weights.
enum class PointBlend : i32 {
  Nearest,  // The point's own voxel has the weight 1.
  // The 2^ndim voxels around the point are weighted linearly along each axis. A voxel is at its centre with
  // Centres, and at its corner of lowest coordinates with Corners.
  Centres,
  Corners,
};

/// Says where a point lies among the voxels around it: on each axis between the voxel `cell` and the next one
/// of the level, and `part` of the way to that one.
template <i32 Ndim>
struct AmongVoxels {
  i32 cell[Ndim];  // Is a multiple of the tensor stride.
  float part[Ndim];
};
/// Finds the voxels around a position. Returns false if the position is not finite, or so far away that int32
/// cannot hold them.
template <i32 Ndim>
MINUET_HD bool find_among_voxels(const PointGrid& grid, const i32* tensor_stride, bool at_centres,
                                 const float* position, AmongVoxels<Ndim>& among) {
  constexpr float kLimit = 1073741824.0f;
  bool is_there = true;
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    const float stride = static_cast<float>(tensor_stride[a]);
    float at = rounded_quotient(cells_from_low(grid, a, position[a]), stride);
    if (at_centres) at = rounded_sum(at, -0.5f);
    const float below = rounded_down(at);
    const bool fits = rounded_product(below, stride) >= -kLimit && rounded_product(below, stride) < kLimit;
    is_there = is_there && fits;
    among.cell[a] = fits ? static_cast<i32>(below) * tensor_stride[a] : 0;
    among.part[a] = rounded_sum(at, -below);
  }
  return is_there;
}
/// Returns the weight of corner `corner`, whose bit a says whether it is the next voxel on axis a.
template <i32 Ndim>
MINUET_HD float corner_weight(const AmongVoxels<Ndim>& among, i32 corner) {
  float weight = 1;
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    const bool is_next = (corner >> a & 1) != 0;
    weight = rounded_product(weight, is_next ? among.part[a] : rounded_sum(1, -among.part[a]));
  }
  return weight;
}

/// Returns a number that spreads cells over a hash table.
template <i32 Ndim>
MINUET_HD u32 hash_of_cell(i32 batch, const i32* cell) {
  u64 state = static_cast<u32>(batch) + 1ull;
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    state = (state ^ static_cast<u32>(cell[a])) * 0x9e3779b97f4a7c15ull;
    state ^= state >> 32;
  }
  return static_cast<u32>(state);
}
/// Returns the number of slots of a hash table for `rows` rows. At most half of them are taken.
MINUET_HD constexpr i64 point_slots(i64 rows) {
  i64 slots = 64;
  while (slots < 2 * rows) slots *= 2;
  return slots;
}

}  // namespace minuet
