// The kernel add_row_sums adds the sums of the pieces of each column (sum_rows.h), and stores them as the
// gradient of a bias, or adds them to it. A block adds one column. With n threads, thread t adds pieces t, t
// + n and so on in ascending order. Then, with half the remaining threads each time, thread t adds the sum of
// thread t + half to its own.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

template <AddRowSumsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void add_row_sums(MINUET_PARAMS(SumRowsParams) p) {
  follow_last_launch();
  __shared__ float shares[S.threads];
  const i64 pieces = row_pieces(rows_in(p));
  const i32 thread = static_cast<i32>(threadIdx.x);
  for (i64 column = blockIdx.x; column < p.channels; column += gridDim.x) {
    float sum = 0;
    for (i64 piece = thread; piece < pieces; piece += S.threads) {
      sum += fresh(p.sums + piece * p.channels + column);
    }
    shares[thread] = sum;
    for (i32 half = S.threads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (thread < half) shares[thread] += shares[thread + half];
    }
    if (thread == 0) p.bias_gradient[column] = p.adds != 0 ? p.bias_gradient[column] + shares[0] : shares[0];
    __syncthreads();
  }
}

}  // namespace minuet
