// The kernel sum_moments stores the moments of each channel over the rows of each piece
// (shared/batch_norm_kernels.h) and the first row. A block computes those of one piece and S.lanes vectors of
// channels at a time. Each of the threads of a vector adds every n-th row, and the moments of these threads
// are merged in order.
#pragma once

#include "kernels_templates/batch_norm/block_sums.h"

namespace minuet {

template <SumMomentsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads,
                                   norm_blocks_at_once(S)) void sum_moments(MINUET_PARAMS(BatchNormParams)
                                                                                p) {
  using Thread = NormThread<S, kNormBatch>;
  constexpr i32 kElements = Thread::kElements;
  __shared__ PieceSums shares[kElements * S.threads];
  __shared__ PieceSums combined[S.threads];
  const i32 thread = static_cast<i32>(threadIdx.x);
  const i64 groups = norm_groups(S, p.shape.channels);
  Thread at(blockIdx.x, groups, p.shape.channels);
  follow_last_launch();
  const NormPieces pieces(used_rows(p.shape));
  for (i64 item = blockIdx.x; item < pieces.count() * groups;) {
    const i64 begin = pieces.begin(at.part);
    const i32 rows = pieces.rows_of(at.part);
    Vector<S.vector_bytes> inputs[Thread::kBatch];
    const auto load = [&](i32 b, bool present, i32 row) {
      inputs[b] = at.load(present, p.input, begin + row);
    };
    at.load_batch(rows, load);
    float first_row[kElements];
    to_floats<S.io>(at.load(at.is_present, p.input, 0), first_row);
    // All channels of a thread have the same count, so that it takes one register.
    float shift[kElements] = {}, sum[kElements] = {}, square[kElements] = {};
    i32 count = 0;
    at.for_rows(rows, load, [&](i32 b, i32 /*row*/) {
      float x[kElements];
      to_floats<S.io>(inputs[b], x);
      MINUET_UNROLL
      for (i32 v = 0; v < kElements; ++v) {
        if (count == 0) shift[v] = x[v];
        const float difference = x[v] - shift[v];
        sum[v] += difference;
        square[v] = multiply_add(difference, difference, square[v]);
      }
      ++count;
    });
    const float share_of_row = count > 0 ? 1.0f / static_cast<float>(count) : 0;
    MINUET_UNROLL
    for (i32 v = 0; v < kElements; ++v) {
      const float mean = sum[v] * share_of_row, squares = square[v] - sum[v] * mean;
      // A comparison that is false for NaN keeps NaN.
      shares[v * S.threads + thread] = {count > 0 ? shift[v] - first_row[v] + mean : 0,
                                        squares < 0 ? 0 : squares};
    }
    const PieceSums moments =
        combine_shares<Thread, Thread::kRowsAtOnce>(shares, combined, MomentsOfShares{rows});
    const i64 channel = at.group * Thread::kColumns + thread % S.lanes * kElements + thread / S.lanes;
    if (thread < Thread::kColumns && channel < p.shape.channels)
      p.pieces[at.part * p.shape.channels + channel] = moments;
    if (at.part == 0 && at.share == 0 && at.is_present) {
      MINUET_UNROLL
      for (i32 v = 0; v < kElements; ++v) p.shift[at.column + v] = first_row[v];
    }
    item += gridDim.x;
    at = Thread(item, groups, p.shape.channels);
    __syncthreads();
  }
}

}  // namespace minuet
