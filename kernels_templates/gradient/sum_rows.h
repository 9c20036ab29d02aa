// The kernel sum_rows sets sums[piece][c] to the sum of column c over the rows of a piece
// (shared/gradient_kernels.h), in fp32. A block sums `columns` columns of one piece at a time. Thread s
// of the n threads of a column adds rows s, s + n and so on of the piece in ascending order. Then the first
// thread adds the sums of the others to its own in the order of s.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

template <SumRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void sum_rows(MINUET_PARAMS(SumRowsParams) p) {
  follow_last_launch();
  constexpr i32 kShares = S.threads / S.columns, kBytes = dtype_bytes(S.io);
  __shared__ float shares[S.threads];
  const i64 rows = rows_in(p), groups = (p.channels + S.columns - 1) / S.columns;
  const i32 thread = static_cast<i32>(threadIdx.x), share = thread / S.columns;
  for (i64 item = blockIdx.x; item < row_pieces(rows) * groups; item += gridDim.x) {
    const i64 piece = item / groups, column = item % groups * S.columns + thread % S.columns;
    const i64 first = piece * kRowsPerPiece;
    const i64 end = first + kRowsPerPiece < rows ? first + kRowsPerPiece : rows;
    float sum = 0;
    if (column < p.channels) {
      MINUET_UNROLL
      for (i64 row = first + share; row < end; row += kShares) {
        float value = 0;
        to_floats<S.io>(load_vector_if<kBytes, true>(true, p.gradient, (row * p.ld + column) * kBytes),
                        &value);
        sum += value;
      }
    }
    shares[thread] = sum;
    __syncthreads();
    if (share == 0 && column < p.channels) {
      MINUET_UNROLL
      for (i32 s = 1; s < kShares; ++s) sum += shares[s * S.columns + thread];
      p.sums[piece * p.channels + column] = sum;
    }
    __syncthreads();
  }
}

}  // namespace minuet
