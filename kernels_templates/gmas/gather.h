// The kernel gather (Minuet paper, algorithm 2) sets buffer[table[k][i]] = input[i] for every offset k that
// uses row i.
//
// Each thread holds one tile of one row, which is S.tile channels, in registers and writes it once per
// offset. The R threads of a row interleave vector by vector, so that thread t holds the vectors t, t + R,
// t + 2R, and so on. In each access, neighbouring threads therefore touch neighbouring vectors, whatever the
// tile size. Threads past the last row write zeros to the padding rows of the buffer, so that no GEMM reads
// uninitialised memory.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/search.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/gmas_kernels.h"

namespace minuet {

template <GatherSpec S>
struct GatherShape {
  static constexpr i32 kElement = dtype_bytes(S.io);
  static constexpr i32 kThreads = S.channels / S.tile;  // Gives the number of threads per row.
  /// Gives the number of vectors per tile.
  static constexpr i32 kVectors = S.tile * kElement / S.vector_bytes;
  /// Gives the length of a buffer row in bytes.
  static constexpr i64 kRowBytes = static_cast<i64>(S.channels) * kElement;
  static_assert(S.channels % S.tile == 0, "tile must divide channels");
  static_assert(S.tile * kElement % S.vector_bytes == 0, "vector_bytes must divide a tile");
  static_assert(S.vector_bytes >= kElement, "an access holds whole elements");

  /// Returns where vector v of a row's thread t begins, in bytes from the start of the row.
  MINUET_HD static constexpr i64 vector_start(i32 t, i32 v) {
    return static_cast<i64>(v * kThreads + t) * S.vector_bytes;
  }
};

/// A thread loads this many table entries before it uses the first, so 27 offsets take three rounds of loads.
constexpr i32 kOffsetsAtOnce = 9;

/// Loads the buffer rows of table column `row` at offsets [k, k + kOffsetsAtOnce), and -1 past the last
/// offset.
MINUET_HD void load_table_column(const i32* table, i64 rows, i64 row, i32 k, i32 volume, i32* buffer_rows) {
  MINUET_UNROLL
  for (i32 u = 0; u < kOffsetsAtOnce; ++u) {
    buffer_rows[u] = load_row_if(k + u < volume, table + (k + u) * rows + row);
  }
}

/// Returns the buffer row of padding row `n`, where padding rows are counted over all offsets.
MINUET_HD i64 padding_row(const GatherParams& p, i64 n) {
  const i32 k = share_of(p.padding_ends, p.volume, n);
  const i64 before = k == 0 ? 0 : read_only(p.padding_ends + k - 1);
  return read_only(p.padding_start + k) + (n - before);
}

template <GatherSpec S>
MINUET_HD void store_tile(void* buffer, i64 row, i32 t, const Vector<S.vector_bytes>* tile) {
  using Shape = GatherShape<S>;
  MINUET_UNROLL
  for (i32 v = 0; v < Shape::kVectors; ++v) {
    store_vector(buffer, row * Shape::kRowBytes + Shape::vector_start(t, v), tile[v]);
  }
}

template <GatherSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void gather(MINUET_PARAMS(GatherParams) p) {
  using Shape = GatherShape<S>;
  const i64 items = (p.rows + p.padding_rows) * Shape::kThreads;
  for (i64 item = grid_thread(S.threads); item < items; item += grid_threads(S.threads)) {
    const i64 row = item / Shape::kThreads;
    const i32 t = static_cast<i32>(item % Shape::kThreads);
    Vector<S.vector_bytes> tile[Shape::kVectors];
    if (row >= p.rows) {
      const i32 target = static_cast<i32>(padding_row(p, row - p.rows));
      if (!is_in_slice(target, p.first_row, p.last_row)) continue;
      MINUET_UNROLL
      for (i32 v = 0; v < Shape::kVectors; ++v) tile[v] = zero_vector<S.vector_bytes>();
      store_tile<S>(p.buffer, target - p.first_row, t, tile);
      continue;
    }
    MINUET_UNROLL
    for (i32 v = 0; v < Shape::kVectors; ++v) {
      tile[v] =
          load_vector<S.vector_bytes>(p.features, row * p.ld * Shape::kElement + Shape::vector_start(t, v));
      tile[v] = to_operand<S.io>(tile[v]);
    }
    for (i32 k = 0; k < p.volume; k += kOffsetsAtOnce) {
      i32 buffer_rows[kOffsetsAtOnce];
      load_table_column(p.table, p.rows, row, k, p.volume, buffer_rows);
      MINUET_UNROLL
      for (i32 u = 0; u < kOffsetsAtOnce; ++u) {
        if (!is_in_slice(buffer_rows[u], p.first_row, p.last_row)) continue;
        store_tile<S>(p.buffer, buffer_rows[u] - p.first_row, t, tile);
      }
    }
  }
}

}  // namespace minuet
