// The kernel permute_rows sets output[i] = input[index[i]], or input[i] without an index, row by row. Output
// rows whose index is negative, and those at and after *count, are filled with padding. A thread handles
// several vectors at once, so that their loads overlap.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/gmas_kernels.h"

namespace minuet {

template <PermuteRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void permute_rows(MINUET_PARAMS(PermuteRowsParams) p) {
  constexpr i32 kElement = dtype_bytes(S.io);
  static_assert(S.channels * kElement % S.vector_bytes == 0, "vector_bytes must divide a row");
  constexpr i32 kVectors = S.channels * kElement / S.vector_bytes;  // Gives the number of vectors per row.
  constexpr i32 kAtOnce = 4;
  const i64 items = p.rows * kVectors;
  const i64 count = p.count != nullptr ? *p.count : p.rows;
  const i64 copied = (count < p.rows ? count : p.rows) * kVectors;
  const i64 stride = grid_threads(S.threads);
  for (i64 first = grid_thread(S.threads); first < items; first += kAtOnce * stride) {
    i64 source[kAtOnce];
    Vector<S.vector_bytes> data[kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 item = first + u * stride;
      source[u] = item / kVectors;
      if (p.index != nullptr && item < copied) source[u] = read_only(p.index + source[u]);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 item = first + u * stride;
      MINUET_UNROLL
      for (i32 w = 0; w < Vector<S.vector_bytes>::kWords; ++w) {
        data[u].words[w] = static_cast<typename Vector<S.vector_bytes>::Word>(p.padding);
      }
      if (item < copied && source[u] >= 0) {
        data[u] = load_vector<S.vector_bytes>(
            p.input, source[u] * p.input_ld * kElement + item % kVectors * S.vector_bytes);
      }
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 item = first + u * stride;
      if (item < items) {
        store_vector(p.output, item / kVectors * p.output_ld * kElement + item % kVectors * S.vector_bytes,
                     data[u]);
      }
    }
  }
}

}  // namespace minuet
