// The kernel channel_to_space computes out[p][c] = in[rows[k][p]][k * channels + c] for the one offset k that
// has a row, or 0 if there is none.
//
// Each thread owns one vector of one output row, and neighbouring threads own neighbouring vectors. It reads
// the rows of several offsets at once, and stops at the offset that has one.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector_elements.h"
#include "kernels_templates/shared/space_kernels.h"

namespace minuet {

/// Holds an input row and the number of the offset at which it was found. The row is -1 if there is none.
struct ParentRow {
  i32 row = -1, offset = 0;
};

/// Returns the parent of output row `row`, which must be less than `count`.
template <i32 Volume>
MINUET_HD ParentRow find_parent(const i32* rows, i64 count, i64 row) {
  constexpr i32 kAtOnce = 8;
  ParentRow parent;
  for (i32 k = 0; k < Volume && parent.row < 0; k += kAtOnce) {
    i32 found[kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) found[u] = load_row_if(k + u < Volume, rows + (k + u) * count + row);
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      if (found[u] >= 0) parent = {found[u], k + u};
    }
  }
  return parent;
}

template <ChannelToSpaceSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void channel_to_space(MINUET_PARAMS(SpaceParams) p) {
  constexpr i32 kElement = dtype_bytes(S.io);
  static_assert(S.vector_bytes % kElement == 0, "a vector has whole elements");
  static_assert(S.channels * kElement % S.vector_bytes == 0, "vector_bytes must divide an output row");
  constexpr i32 kVectors = S.channels * kElement / S.vector_bytes;
  const i64 count = *p.output_count;
  const i64 items = (p.pads_output != 0 ? p.output_rows : count) * kVectors;
  for (i64 item = grid_thread(S.threads); item < items; item += grid_threads(S.threads)) {
    const i64 row = quotient(item, kVectors);
    const i64 v = item - row * kVectors;
    auto data = zero_vector<S.vector_bytes>();
    if (row < count) {
      const ParentRow parent = find_parent<S.volume>(p.rows, count, row);
      const i64 first = parent.row * p.input_ld + static_cast<i64>(parent.offset) * S.channels;
      data = load_vector_if<S.vector_bytes>(parent.row >= 0, p.input, first * kElement + v * S.vector_bytes);
    }
    if (has_overflow<S.io>(data)) *p.overflow = p.overflow_mark;
    store_vector(p.output, row * p.output_ld * kElement + v * S.vector_bytes, data);
  }
}

}  // namespace minuet
