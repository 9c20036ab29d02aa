// The kernel devoxelize sets output[i] = sum of weights[k][i] * input[rows[k][i]] over the corners k of point
// i that have a row, in ascending k and in fp32. Points without a row, and rows past the last point, become
// 0. Each thread handles one vector of one point at a time.
#pragma once

#include "kernels_templates/core/vector.h"
#include "kernels_templates/points/point_table.h"

namespace minuet {

template <DevoxelizeSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void devoxelize(MINUET_PARAMS(DevoxelizeParams) p) {
  follow_last_launch();
  constexpr i32 kElements = S.vector_bytes / dtype_bytes(S.io);
  const i64 points = count_within(p.count, p.most);
  const i64 input_rows = count_within(p.input_count, p.input_rows);
  const i64 thread = grid_thread(S.threads), step = grid_threads(S.threads);
  RowIterator at(thread, step, p.vectors);
  for (i64 item = thread; item < p.most * p.vectors; item += step, at.advance()) {
    const i64 i = at.outer(), byte = at.inner() * S.vector_bytes;
    float sums[kElements] = {};
    Vector<S.vector_bytes> result = zero_vector<S.vector_bytes>();
    MINUET_UNROLL
    for (i32 k = 0; k < S.corners; ++k) {
      const i64 row = i < points ? fresh(p.rows + k * p.most + i) : -1;
      const bool is_there = row >= 0 && row < input_rows;
      const Vector<S.vector_bytes> input = load_vector_if<S.vector_bytes, true>(
          is_there, p.input, (is_there ? row : 0) * p.input_ld * dtype_bytes(S.io) + byte);
      if constexpr (S.corners == 1) {
        result = input;
      } else if (is_there) {
        float values[kElements];
        to_floats<S.io>(input, values);
        const float weight = fresh(p.weights + k * p.most + i);
        MINUET_UNROLL
        for (i32 e = 0; e < kElements; ++e)
          sums[e] = rounded_sum(sums[e], rounded_product(weight, values[e]));
      }
    }
    if constexpr (S.corners > 1) result = from_floats<S.io, S.vector_bytes>(sums);
    store_vector(p.output, i * p.output_ld * dtype_bytes(S.io) + byte, result);
  }
}

}  // namespace minuet
