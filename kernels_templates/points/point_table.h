// This file inserts points and rows into a hash table of cells (shared/point_kernels.h), and looks cells up.
// A slot holds the number of a point or a row, from whose own data its cell is read. So cells of any extent
// need no key, and a table with twice as many slots as points never overflows.
#pragma once

#include "kernels_templates/core/current.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/point_kernels.h"

namespace minuet {

template <i32 Ndim>
struct Cell {
  i32 batch;
  i32 at[Ndim];
};
template <i32 Ndim>
MINUET_HD bool is_same_cell(const Cell<Ndim>& a, const Cell<Ndim>& b) {
  bool same = a.batch == b.batch;
  MINUET_UNROLL
  for (i32 axis = 0; axis < Ndim; ++axis) same = same && a.at[axis] == b.at[axis];
  return same;
}

template <i32 Ndim>
MINUET_DEVICE PointFate read_cell(const PointArray& points, const PointGrid& grid, i64 i, Cell<Ndim>& cell) {
  float position[Ndim];
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) position[a] = fresh(points.points + i * points.ld + a);
  cell.batch = points.batch == nullptr ? 0 : fresh(points.batch + i);
  return cell_of_point<Ndim>(grid, position, cell.at);
}

template <i32 Ndim>
MINUET_DEVICE Cell<Ndim> read_row(const i32* coordinates, i64 row) {
  Cell<Ndim> cell;
  cell.batch = fresh(coordinates + row * (1 + Ndim));
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) cell.at[a] = fresh(coordinates + row * (1 + Ndim) + 1 + a);
  return cell;
}

/// Stores `number` in the slot of its cell unless the slot already holds a lower number, and returns the
/// slot. cell_of(n) returns the cell of number n, which must be in the table.
template <i32 Ndim, class CellOf>
MINUET_DEVICE i32 take_cell(i32* table, u32 slots, const Cell<Ndim>& cell, i32 number,
                            const CellOf& cell_of) {
  u32 slot = hash_of_cell<Ndim>(cell.batch, cell.at) & (slots - 1);
  for (;; slot = (slot + 1) & (slots - 1)) {
    i32 found = static_cast<i32>(read_current_word(reinterpret_cast<const u32*>(table + slot)));
    if (found == kFreeSlot) {
      found = atomicCAS(table + slot, kFreeSlot, number);
      if (found == kFreeSlot) break;
    }
    if (!is_same_cell(cell, cell_of(found))) continue;
    // Numbers in a slot only decrease, so that a lower number need not be replaced.
    if (number < found) atomicMin(table + slot, number);
    break;
  }
  return static_cast<i32>(slot);
}

/// Returns the number that the slot of the cell holds, or -1 if no slot has the cell.
template <i32 Ndim, class CellOf>
MINUET_DEVICE i32 find_cell(const i32* table, u32 slots, const Cell<Ndim>& cell, const CellOf& cell_of) {
  u32 slot = hash_of_cell<Ndim>(cell.batch, cell.at) & (slots - 1);
  for (;; slot = (slot + 1) & (slots - 1)) {
    const i32 found = fresh(table + slot);
    if (found == kFreeSlot || is_same_cell(cell, cell_of(found))) return found;
  }
}

}  // namespace minuet
