// The kernel to_dense computes out[b][c][cell] = in[rows[b][cell]][c], or 0 if rows[b][cell] is -1, and the
// same with the channels last. It writes every byte of the output once.
//
// If the channels come first, each thread owns several consecutive cells and one vector of channels. It reads
// the vector of each cell's row, transposes these vectors in registers, and writes one vector of cells for
// each channel. Neighbouring threads own neighbouring cells, so that the writes of a warp are contiguous. If
// the channels come last, each thread copies one vector of one cell.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector_elements.h"
#include "kernels_templates/shared/dense_kernels.h"

namespace minuet {

template <ToDenseSpec S>
struct ToDenseShape {
  static constexpr i32 kElement = dtype_bytes(S.io);
  static constexpr i32 kChannels = S.vector_bytes / kElement;  // Gives the number of channels per read.
  static constexpr i32 kVectors = S.channels / kChannels;      // Gives the number of reads per row.
  /// Gives the number of cells that a thread handles at once.
  static constexpr i32 kCells = S.channels_last ? 1 : S.store_bytes / kElement;
  static_assert(S.vector_bytes % kElement == 0 && S.store_bytes % kElement == 0,
                "a vector has whole elements");
  static_assert(S.channels % kChannels == 0, "vector_bytes must divide a row");
};

/// Reads the rows of the cells that begin at `cell`. A row is -1 if its cell is empty.
template <i32 Cells>
MINUET_HD void read_cell_rows(const i32* table, i64 cell, i32* rows) {
  constexpr i32 kBytes = Cells * 4 < 16 ? Cells * 4 : 16, kRows = kBytes / 4;
  MINUET_UNROLL
  for (i32 i = 0; i < Cells; i += kRows) {
    const Vector<kBytes> words = load_vector<kBytes>(table, (cell + i) * 4);
    MINUET_UNROLL
    for (i32 w = 0; w < kRows; ++w) rows[i + w] = static_cast<i32>(words.words[w]);
  }
}

/// Reads vector v of the rows of all cells of a thread. Returns true if one of them has an infinite or NaN
/// number.
template <ToDenseSpec S>
MINUET_HD bool read_features(const ToDenseParams& p, const i32* rows, i32 v, Vector<S.vector_bytes>* data) {
  using Shape = ToDenseShape<S>;
  MINUET_UNROLL
  for (i32 i = 0; i < Shape::kCells; ++i) {
    const i64 byte = rows[i] * p.input_ld * Shape::kElement + v * S.vector_bytes;
    data[i] = load_vector_if<S.vector_bytes>(rows[i] >= 0, p.input, byte);
  }
  bool found = false;
  MINUET_UNROLL
  for (i32 i = 0; i < Shape::kCells; ++i) found = found || has_overflow<S.io>(data[i]);
  return found;
}

/// Writes vector v of the cells from `cell` on of batch item b, where the channels come first.
template <ToDenseSpec S>
MINUET_HD void write_planes(const ToDenseParams& p, i64 b, i32 v, i64 cell,
                            const Vector<S.vector_bytes>* data) {
  using Shape = ToDenseShape<S>;
  MINUET_UNROLL
  for (i32 e = 0; e < Shape::kChannels; ++e) {
    auto plane = zero_vector<S.store_bytes>();
    MINUET_UNROLL
    for (i32 i = 0; i < Shape::kCells; ++i) {
      set_element<Shape::kElement>(plane, i, element_bits<Shape::kElement>(data[i], e));
    }
    const i64 element = (b * S.channels + v * Shape::kChannels + e) * p.cells + cell;
    store_elements<Shape::kElement>(p.is_aligned != 0, p.output, element * Shape::kElement, plane);
  }
}

template <ToDenseSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void to_dense(MINUET_PARAMS(ToDenseParams) p) {
  using Shape = ToDenseShape<S>;
  const i64 chunks = p.cells / Shape::kCells;
  const i64 items = p.batch * chunks * Shape::kVectors;
  for (i64 item = grid_thread(S.threads); item < items; item += grid_threads(S.threads)) {
    i32 rows[Shape::kCells];
    Vector<S.vector_bytes> data[Shape::kCells];
    bool found = false;
    if constexpr (S.channels_last) {
      const i64 cell = quotient(item, Shape::kVectors);
      const i32 v = static_cast<i32>(item - cell * Shape::kVectors);
      rows[0] = read_only(p.rows + cell);
      found = read_features<S>(p, rows, v, data);
      const i64 byte = cell * S.channels * Shape::kElement + v * S.vector_bytes;
      store_elements<Shape::kElement>(p.is_aligned != 0, p.output, byte, data[0]);
    } else {
      const i64 plane = quotient(item, chunks), cell = (item - plane * chunks) * Shape::kCells;
      const i64 b = quotient(plane, Shape::kVectors);
      const i32 v = static_cast<i32>(plane - b * Shape::kVectors);
      read_cell_rows<Shape::kCells>(p.rows, b * p.cells + cell, rows);
      found = read_features<S>(p, rows, v, data);
      write_planes<S>(p, b, v, cell, data);
    }
    if (found) *p.overflow = p.overflow_mark;
  }
}

}  // namespace minuet
