// The kernel measure_rows stores what normalizes each row of a layer norm's input: its mean, and 1 /
// sqrt(variance + epsilon). A warp reads a row twice, because the difference of two sums of squares would
// lose digits.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/pointwise/row_reduction.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

/// Sums term(x) of the elements x of a row. Each lane adds every 32nd one.
template <MeasureRowsSpec S, class Term>
MINUET_DEVICE float sum_row(const SumProductsParams& p, i64 row, i32 lane, const Term& term) {
  constexpr i32 kBytes = dtype_bytes(S.io);
  float sum = 0;
  MINUET_UNROLL
  for (i32 c = lane; c < p.channels; c += 32) {
    float value = 0;
    to_floats<S.io>(load_vector_if<kBytes, true>(true, p.input, (row * p.input_ld + c) * kBytes), &value);
    sum += term(value);
  }
  return combine_lanes<SumOf, 32>(sum);
}

template <MeasureRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void measure_rows(MINUET_PARAMS(SumProductsParams) p) {
  follow_last_launch();
  const i64 rows = count_within(p.count, p.rows);
  const i32 lane = static_cast<i32>(threadIdx.x & 31u);
  const float channels = static_cast<float>(p.channels);
  for (i64 row = grid_thread(S.threads) / 32; row < rows; row += grid_threads(S.threads) / 32) {
    const float mean = sum_row<S>(p, row, lane, [](float x) { return x; }) / channels;
    const float variance =
        sum_row<S>(p, row, lane, [&](float x) { return (x - mean) * (x - mean); }) / channels;
    if (lane != 0) continue;
    p.measures[2 * row] = mean;
    p.measures[2 * row + 1] = 1.0f / square_root(variance + p.epsilon);
  }
}

}  // namespace minuet
