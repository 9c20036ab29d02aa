// The kernel sum_products sets two sums of each column c over the rows of each piece
// (shared/gradient_kernels.h), in fp32: that of gradient[row][c] * n[row][c], and that of gradient[row][c].
// n is the input, or its normalized rows (measure_rows.h). Blocks and threads share the work as in
// sum_rows.h.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

/// Returns the element of n that corresponds to one of the gradient.
template <SumProductsSpec S>
MINUET_DEVICE float factor_at(const SumProductsParams& p, i64 row, i64 column) {
  constexpr i32 kBytes = dtype_bytes(S.io);
  float value = 0;
  to_floats<S.io>(load_vector_if<kBytes, true>(true, p.input, (row * p.input_ld + column) * kBytes), &value);
  if constexpr (S.normalizes) value = (value - fresh(p.measures + 2 * row)) * fresh(p.measures + 2 * row + 1);
  return value;
}

template <SumProductsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void sum_products(MINUET_PARAMS(SumProductsParams) p) {
  follow_last_launch();
  constexpr i32 kShares = S.threads / S.columns, kBytes = dtype_bytes(S.io);
  __shared__ float shares[2][S.threads];
  const i64 rows = count_within(p.count, p.rows), groups = (p.channels + S.columns - 1) / S.columns;
  const i32 thread = static_cast<i32>(threadIdx.x), share = thread / S.columns;
  for (i64 item = blockIdx.x; item < row_pieces(rows) * groups; item += gridDim.x) {
    const i64 piece = item / groups, column = item % groups * S.columns + thread % S.columns;
    const i64 first = piece * kRowsPerPiece;
    const i64 end = first + kRowsPerPiece < rows ? first + kRowsPerPiece : rows;
    float products = 0, sum = 0;
    if (column < p.channels) {
      MINUET_UNROLL
      for (i64 row = first + share; row < end; row += kShares) {
        float value = 0;
        to_floats<S.io>(
            load_vector_if<kBytes, true>(true, p.gradient, (row * p.gradient_ld + column) * kBytes), &value);
        products += value * factor_at<S>(p, row, column);
        sum += value;
      }
    }
    shares[0][thread] = products, shares[1][thread] = sum;
    __syncthreads();
    if (share == 0 && column < p.channels) {
      MINUET_UNROLL
      for (i32 s = 1; s < kShares; ++s) {
        products += shares[0][s * S.columns + thread], sum += shares[1][s * S.columns + thread];
      }
      p.products[piece * p.channels + column] = products;
      p.sums[piece * p.channels + column] = sum;
    }
    __syncthreads();
  }
}

}  // namespace minuet
