// This file computes the cells of a coordinate set that follow from one coordinate of another set, the
// parent. A cell is a coordinate divided by the set's tensor stride.
//
// The cells are those of the outputs of a dense convolution. On each axis, cell q follows from coordinate x
// if q * stride + k * step - padding = x for an index k of the kernel. All numbers are in cells of the finest
// grid. A set whose coordinates are rounded down is the special case with a kernel of `stride` indices, a
// step of 1 and no padding, so that each coordinate has one cell.
#pragma once

#include "kernels_templates/shared/key_layout.h"

namespace minuet {

/// Describes how the cells of a coordinate set follow from the coordinates of a parent. All members are
/// per axis, except the first three.
struct LevelSource {
  i32 parent;  // Gives the number of the parent's level in an index.
  /// Gives the number of the level in an index that must have the coordinates too if the set is an
  /// intersection, and is -1 otherwise. reached_cell() does not look at it.
  i32 also_in;
  i32 cells;  // Limits the number of cells per coordinate. This is the product of axis_cells.
  i32 axis_cells[kMaxDim];
  i32 kernel_size[kMaxDim];
  i32 step[kMaxDim], stride[kMaxDim], padding[kMaxDim];
  /// Gives the number of cells that the set has on the axis, or 0 if all cells are allowed.
  i32 shape[kMaxDim];
  /// Gives the greatest common divisor of `step` and `stride`. An index k can satisfy the equation only if it
  /// divides coordinate + padding.
  i32 common[kMaxDim];
  /// Gives `stride` / `common`. The indices k that satisfy the equation are this number apart.
  i32 period[kMaxDim];
  /// Gives the number whose product with `step` / `common` is 1 modulo `period`.
  i32 inverse[kMaxDim];
  /// The next three arrays give the base-2 logarithms of `common`, `period` and `stride`, or -1 for a number
  /// that is not a power of two. Shifts replace divisions, which are slow on a device.
  i32 common_shift[kMaxDim], period_shift[kMaxDim], stride_shift[kMaxDim];
};

/// Returns floor(value / divisor). `shift` is the base-2 logarithm of the divisor, or -1.
MINUET_HD constexpr i64 floor_quotient(i64 value, i32 divisor, i32 shift) {
  if (shift >= 0) return value >> shift;
  const i64 quotient = value / divisor;
  return quotient - (value - quotient * divisor < 0 ? 1 : 0);
}

/// Computes cell number `number` of `axis_cells` that follows from a coordinate on an axis. Returns false if
/// there is no such cell.
MINUET_HD constexpr bool reached_axis_cell(const LevelSource& source, i32 axis, i32 coordinate, i32 number,
                                           i32& cell) {
  const i64 padded = i64{coordinate} + source.padding[axis];
  const i64 quotient = floor_quotient(padded, source.common[axis], source.common_shift[axis]);
  if (quotient * source.common[axis] != padded) return false;
  const i32 period = source.period[axis], shift = source.period_shift[axis];
  // The first index that satisfies the equation is quotient * inverse, modulo the period.
  const i64 rest = quotient - floor_quotient(quotient, period, shift) * period;
  const i64 product = rest * source.inverse[axis];
  const i64 first = product - floor_quotient(product, period, shift) * period;
  const i64 index = first + i64{number} * period;
  if (index >= source.kernel_size[axis]) return false;
  const i64 found =
      floor_quotient(padded - index * source.step[axis], source.stride[axis], source.stride_shift[axis]);
  cell = static_cast<i32>(found);
  return source.shape[axis] == 0 || (found >= 0 && found < source.shape[axis]);
}

/// Computes cell number `number` of LevelSource::cells that follows from a coordinate, batch first. `cell`
/// receives the batch and then the cell on each axis. Returns false if there is no such cell.
MINUET_HD constexpr bool reached_cell(const LevelSource& source, i32 ndim, const i32* coordinate, i32 number,
                                      i32* cell) {
  bool is_there = true;
  cell[0] = coordinate[0];
  MINUET_UNROLL
  for (i32 a = ndim - 1; a >= 0; --a) {
    const i32 cells = source.axis_cells[a];
    is_there = is_there && reached_axis_cell(source, a, coordinate[a + 1], number % cells, cell[a + 1]);
    number /= cells;
  }
  return is_there;
}

}  // namespace minuet
