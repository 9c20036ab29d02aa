// The kernel sum_moments stores the moments of each channel over the rows of each piece
// (shared/batch_norm_kernels.h), as pieces[piece][0][channel] and pieces[piece][1][channel], and the first
// row. A block computes those of one piece and S.lanes vectors of channels at a time. Each of the threads of
// a vector adds every n-th row, and the moments of these threads are merged in order.
#pragma once

#include "kernels_templates/batch_norm/piece_rows.h"

namespace minuet {

template <SumMomentsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void sum_moments(MINUET_PARAMS(BatchNormParams) p) {
  using Thread = NormThread<S>;
  constexpr i32 kElements = Thread::kElements;
  follow_last_launch();
  __shared__ float means[kElements * S.threads];
  __shared__ float squares[kElements * S.threads];
  const i64 rows = used_rows(p.shape), groups = norm_groups(S, p.shape.channels);
  const i32 thread = static_cast<i32>(threadIdx.x);
  for (i64 item = blockIdx.x; item < norm_pieces(rows) * groups; item += gridDim.x) {
    const Thread at(item, groups, p.shape.channels);
    // All channels of a thread have the same count, so that it takes one register.
    float shift[kElements] = {}, sum[kElements] = {}, square[kElements] = {};
    i32 count = 0;
    Vector<S.vector_bytes> inputs[Thread::kBatch];
    const auto load = [&](i32 b, bool present, i64 row) { inputs[b] = at.load(present, p.input, row); };
    at.load_first(rows, load);
    float first_row[kElements];
    to_floats<S.io>(at.load(at.is_present, p.input, 0), first_row);
    if (at.piece == 0 && at.share == 0 && at.is_present) {
      MINUET_UNROLL
      for (i32 v = 0; v < kElements; ++v) p.shift[at.column + v] = first_row[v];
    }
    at.for_rows(rows, load, [&](i32 b, i64 /*row*/) {
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
    MINUET_UNROLL
    for (i32 v = 0; v < kElements; ++v) {
      const MomentsSum all{shift[v] - first_row[v], static_cast<float>(count), sum[v], square[v]};
      const Moments moments = all.moments();
      means[v * S.threads + thread] = moments.mean;
      squares[v * S.threads + thread] = moments.squares;
    }
    __syncthreads();
    const i64 channel = at.group * Thread::kColumns + thread % S.lanes * kElements + thread / S.lanes;
    if (thread < Thread::kColumns && channel < p.shape.channels) {
      const i64 piece_rows = rows_of_piece(at.piece, rows);
      const i32 first = thread / S.lanes * S.threads + thread % S.lanes;
      MomentsSum merged_shares;
      for (i32 share = 0; share < Thread::kRowsAtOnce && share < piece_rows; ++share) {
        const i64 shared_rows = (piece_rows - share + Thread::kRowsAtOnce - 1) / Thread::kRowsAtOnce;
        const i32 place = first + share * S.lanes;
        merged_shares.add(Moments{static_cast<float>(shared_rows), means[place], squares[place]});
      }
      const Moments moments = merged_shares.moments();
      float* const piece = p.pieces + at.piece * 2 * p.shape.channels;
      piece[channel] = moments.mean;
      piece[p.shape.channels + channel] = moments.squares;
    }
    __syncthreads();
  }
}

}  // namespace minuet
