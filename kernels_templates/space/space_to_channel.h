// The kernel space_to_channel computes out[q][k * channels + c] = in[rows[k][q]][c], or 0 where offset k has
// no row.
//
// Each thread owns one vector of one output row, and neighbouring threads own neighbouring vectors. A thread
// handles several vectors at once, so that their loads overlap.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector_elements.h"
#include "kernels_templates/shared/space_kernels.h"

namespace minuet {

template <SpaceToChannelSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void space_to_channel(MINUET_PARAMS(SpaceParams) p) {
  constexpr i32 kElement = dtype_bytes(S.io);
  static_assert(S.vector_bytes % kElement == 0, "a vector has whole elements");
  static_assert(S.channels * kElement % S.vector_bytes == 0, "vector_bytes must divide a child's channels");
  constexpr i32 kChild = S.channels * kElement / S.vector_bytes;  // Gives the number of vectors of a child.
  constexpr i32 kVectors = S.volume * kChild;  // Gives the number of vectors of an output row.
  constexpr i32 kAtOnce = 4;
  const i64 count = *p.output_count;
  const i64 items = (p.pads_output != 0 ? p.output_rows : count) * kVectors;
  const i64 stride = grid_threads(S.threads);
  for (i64 first = grid_thread(S.threads); first < items; first += kAtOnce * stride) {
    i64 rows[kAtOnce];
    i32 vectors[kAtOnce], sources[kAtOnce];
    Vector<S.vector_bytes> data[kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 item = first + u * stride;
      rows[u] = quotient(item, kVectors);
      vectors[u] = static_cast<i32>(item - rows[u] * kVectors);
      const i64 k = vectors[u] / kChild;
      const bool is_there = rows[u] < count;  // Without rows, the table may be null.
      sources[u] = load_row_if(is_there, p.rows + (is_there ? k * count + rows[u] : 0));
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 byte = sources[u] * p.input_ld * kElement + vectors[u] % kChild * S.vector_bytes;
      data[u] = load_vector_if<S.vector_bytes>(sources[u] >= 0, p.input, byte);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      if (first + u * stride >= items) continue;
      if (has_overflow<S.io>(data[u])) *p.overflow = p.overflow_mark;
      store_vector(p.output, rows[u] * p.output_ld * kElement + vectors[u] * S.vector_bytes, data[u]);
    }
  }
}

}  // namespace minuet
