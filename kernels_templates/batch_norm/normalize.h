// The kernel normalize computes (input - mean) * inverse_std * weight + bias, plus the residual and the ReLU
// of the Spec, for all rows in use, and stores 0 in the others. A block works on one piece of rows and
// S.lanes vectors of channels at a time (shared/batch_norm_kernels.h).
#pragma once

#include "kernels_templates/batch_norm/piece_rows.h"

namespace minuet {

template <NormalizeSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void normalize(MINUET_PARAMS(BatchNormParams) p) {
  using Thread = NormThread<S>;
  constexpr i32 kElements = Thread::kElements;
  follow_last_launch();
  const i64 rows = used_rows(p.shape), groups = norm_groups(S, p.shape.channels);
  // finish_moments, which has ended, was the last to read the count of batches.
  if (blockIdx.x == 0 && threadIdx.x == 0) count_batch(p.running, fresh(p.saved + 2 * p.shape.channels));
  // The first pass has left the last rows in the L2 cache, so this one begins with them.
  for (i64 item = norm_pieces(p.shape.rows) * groups - 1 - blockIdx.x; item >= 0; item -= gridDim.x) {
    const Thread at(item, groups, p.shape.channels);
    Vector<S.vector_bytes> inputs[Thread::kBatch], residuals[Thread::kBatch];
    const auto load = [&](i32 b, bool present, i64 row) {
      inputs[b] = at.load(present && row < rows, p.input, row);
      if constexpr (S.has_residual) residuals[b] = at.load(present && row < rows, p.residual, row);
    };
    at.load_first(p.shape.rows, load);
    NormChannel channels[kElements];
    at.load_channels(p.saved, p.shape.channels, p.weight, p.bias, channels);
    at.for_rows(p.shape.rows, load, [&](i32 b, i64 row) {
      float x[kElements], residual[kElements];
      to_floats<S.io>(inputs[b], x);
      if constexpr (S.has_residual) to_floats<S.io>(residuals[b], residual);
      MINUET_UNROLL
      for (i32 v = 0; v < kElements; ++v) {
        x[v] = normalized(channels[v], x[v]);
        if constexpr (S.has_residual) x[v] += residual[v];
        if (S.has_relu && x[v] < 0) x[v] = 0;
        if (row >= rows) x[v] = 0;
      }
      at.store(p.output, row, x);
    });
  }
}

}  // namespace minuet
