// The kernel sum_entries sets output[row] = sum of weight * out_gradient[point] over the entries of the row,
// in their order and in fp64, so that the sums have the same bits on every device. Rows without entries
// become 0. Each thread handles one vector of one row at a time.
#pragma once

#include "kernels_templates/core/vector.h"
#include "kernels_templates/points/point_table.h"
#include "kernels_templates/shared/row_gradient_kernels.h"

namespace minuet {

/// A thread loads the vectors of this many entries before it adds the first.
constexpr i32 kEntriesInFlight = 4;

template <SumEntriesSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void sum_entries(MINUET_PARAMS(EntriesParams) p) {
  follow_last_launch();
  constexpr i32 kElements = S.vector_bytes / dtype_bytes(S.io);
  const i64 thread = grid_thread(S.threads), step = grid_threads(S.threads);
  const i64 row_bytes = i64{p.vectors} * S.vector_bytes;
  const u32 most = static_cast<u32>(p.most);
  RowIterator at(thread, step, p.vectors);
  for (i64 item = thread; item < p.most_rows * p.vectors; item += step, at.advance()) {
    const i64 row = at.outer(), byte = at.inner() * S.vector_bytes;
    const u32 begin = fresh(p.begins + row), end = fresh(p.begins + row + 1);
    double sums[kElements] = {};
    for (u32 first = begin; first < end; first += kEntriesInFlight) {
      Vector<S.vector_bytes> loaded[kEntriesInFlight];
      float weights[kEntriesInFlight];
      MINUET_UNROLL
      for (u32 k = 0; k < kEntriesInFlight; ++k) {
        const bool is_there = first + k < end;
        const u32 entry = is_there ? fresh(p.list + first + k) : 0;
        const u32 point = S.weighs ? entry % most : entry;
        loaded[k] =
            load_vector_if<S.vector_bytes, true>(is_there, p.out_gradient, i64{point} * row_bytes + byte);
        weights[k] = S.weighs && is_there ? fresh(p.weights + entry) : 1;
      }
      MINUET_UNROLL
      for (u32 k = 0; k < kEntriesInFlight; ++k) {
        if (first + k >= end) continue;
        float values[kElements];
        to_floats<S.io>(loaded[k], values);
        MINUET_UNROLL
        for (i32 e = 0; e < kElements; ++e)
          sums[e] += static_cast<double>(weights[k]) * static_cast<double>(values[e]);
      }
    }
    float rounded[kElements];
    MINUET_UNROLL
    for (i32 e = 0; e < kElements; ++e) rounded[e] = static_cast<float>(sums[e]);
    store_vector(p.output, row * row_bytes + byte, from_floats<S.io, S.vector_bytes>(rounded));
  }
}

}  // namespace minuet
