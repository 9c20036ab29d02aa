// The kernel from_dense computes out[row][c] = in[b][c][cell] for the cell of each row's coordinate, and the
// same with the channels last.
//
// Each thread owns one vector of one output row. If the channels come first, neighbouring threads own
// neighbouring rows, which are often near each other, so that their reads of one channel share sectors. If
// the channels come last, neighbouring threads own neighbouring vectors of a row.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector_elements.h"
#include "kernels_templates/shared/dense_kernels.h"

namespace minuet {

template <FromDenseSpec S>
struct FromDenseShape {
  static constexpr i32 kElement = dtype_bytes(S.io);
  static constexpr i32 kChannels = S.vector_bytes / kElement;  // Gives the number of channels per write.
  static constexpr i32 kVectors = S.channels / kChannels;      // Gives the number of writes per row.
  static_assert(S.vector_bytes % kElement == 0, "a vector has whole elements");
  static_assert(S.channels % kChannels == 0, "vector_bytes must divide a row");
};

/// Reads vector v of a cell, which is counted over all batch items.
template <FromDenseSpec S>
MINUET_HD Vector<S.vector_bytes> read_cell(const FromDenseParams& p, i64 cell, i32 v) {
  using Shape = FromDenseShape<S>;
  if constexpr (S.channels_last) {
    const i64 byte = cell * S.channels * Shape::kElement + v * S.vector_bytes;
    return load_elements<Shape::kElement, S.vector_bytes>(p.is_aligned != 0, p.input, byte);
  } else {
    const i64 b = quotient(cell, p.grid.cells);
    const i64 first = (b * S.channels + v * Shape::kChannels) * p.grid.cells + (cell - b * p.grid.cells);
    auto vector = zero_vector<S.vector_bytes>();
    MINUET_UNROLL
    for (i32 e = 0; e < Shape::kChannels; ++e) {
      const i64 byte = (first + static_cast<i64>(e) * p.grid.cells) * Shape::kElement;
      set_element<Shape::kElement>(vector, e, load_vector<Shape::kElement>(p.input, byte).words[0]);
    }
    return vector;
  }
}

template <FromDenseSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void from_dense(MINUET_PARAMS(FromDenseParams) p) {
  using Shape = FromDenseShape<S>;
  const i64 count = *p.output_count, rows = p.pads_output != 0 ? p.output_rows : count;
  const i64 items = rows * Shape::kVectors;
  for (i64 item = grid_thread(S.threads); item < items; item += grid_threads(S.threads)) {
    const i64 outer = quotient(item, S.channels_last ? Shape::kVectors : rows);
    const i64 inner = item - outer * (S.channels_last ? Shape::kVectors : rows);
    const i64 row = S.channels_last ? outer : inner;
    const i32 v = static_cast<i32>(S.channels_last ? inner : outer);
    auto vector = zero_vector<S.vector_bytes>();
    if (row < count) {
      i32 coordinate[S.ndim + 1];
      MINUET_UNROLL
      for (i32 f = 0; f <= S.ndim; ++f) coordinate[f] = read_only(p.coordinates + row * (S.ndim + 1) + f);
      const i32 cell = cell_of<S.ndim>(p.grid, coordinate);
      if (cell >= 0) vector = read_cell<S>(p, cell, v);
    }
    if (has_overflow<S.io>(vector)) *p.overflow = p.overflow_mark;
    store_vector(p.output, row * p.output_ld * Shape::kElement + v * S.vector_bytes, vector);
  }
}

}  // namespace minuet
