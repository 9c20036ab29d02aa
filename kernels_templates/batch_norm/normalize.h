// The kernel normalize computes (input - mean) * inverse_std * weight + bias, plus the residual and the ReLU
// of the Spec, for all rows in use, and stores 0 in the others. A block works on norm_block_rows() rows and
// S.lanes vectors of channels at a time (shared/batch_norm_kernels.h). finish_moments is always the launch
// before and writes only the statistics, so that a block loads its first rows early.
#pragma once

#include "kernels_templates/batch_norm/norm_rows.h"

namespace minuet {

template <NormalizeSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads,
                                   norm_blocks_at_once(S)) void normalize(MINUET_PARAMS(BatchNormParams) p) {
  using Thread = NormThread<S, kNormBatch>;
  constexpr i32 kElements = Thread::kElements;
  __shared__ ChannelNumbers<Thread, 3> shared;
  const i32 channels = p.shape.channels;
  const i64 rows = early_count_within(p.shape.count, p.shape.rows), groups = norm_groups(S, channels);
  // The first pass has left the last rows in the L2 cache, so this one begins with them.
  i64 item = norm_blocks(S, p.shape.rows) * groups - 1 - blockIdx.x;
  Thread at(item < 0 ? 0 : item, groups, channels);
  i64 begin = at.part * norm_block_rows(S);
  Vector<S.vector_bytes> inputs[Thread::kBatch], residuals[Thread::kBatch];
  const auto load = [&](i32 b, bool present, i32 row) {
    inputs[b] = at.load_early(present, p.input, begin + row);
    if constexpr (S.has_residual) residuals[b] = at.load_early(present, p.residual, begin + row);
  };
  at.load_batch(item < 0 ? 0 : norm_rows_from(S, begin, rows), load);
  i64 channel = at.own_channel(channels);
  float weight = load_early_or(p.weight, channel, 1), bias = load_early_or(p.bias, channel, 0);
  follow_last_launch();
  // finish_moments, which has ended, was the last to read the count of batches.
  if (blockIdx.x == 0 && threadIdx.x == 0) count_batch(p.running, fresh(p.saved + 2 * channels));
  for (i64 prepared = -1; item >= 0;) {
    if (prepared != at.group) {
      prepared = at.group;
      __syncthreads();
      if (channel >= 0) {
        shared.numbers[0][threadIdx.x] = fresh(p.saved + channel);
        shared.numbers[1][threadIdx.x] = fresh(p.saved + channels + channel) * weight;
        shared.numbers[2][threadIdx.x] = bias;
      }
      __syncthreads();
    }
    const i32 used = norm_rows_from(S, begin, rows);
    at.use_batch(norm_rows_from(S, begin, p.shape.rows), [&](i32 b, i32 row) {
      NormChannel numbers[kElements];
      shared.read(at, numbers);
      float x[kElements], residual[kElements];
      to_floats<S.io>(inputs[b], x);
      if constexpr (S.has_residual) to_floats<S.io>(residuals[b], residual);
      MINUET_UNROLL
      for (i32 v = 0; v < kElements; ++v) {
        x[v] = normalized(numbers[v], x[v]);
        if constexpr (S.has_residual) x[v] += residual[v];
        if (S.has_relu && x[v] < 0) x[v] = 0;
        if (row >= used) x[v] = 0;
      }
      at.store(p.output, begin + row, x);
    });
    item -= gridDim.x;
    if (item < 0) return;
    at = Thread(item, groups, channels);
    begin = at.part * norm_block_rows(S);
    at.load_batch(norm_rows_from(S, begin, rows), load);
    if (prepared == at.group) continue;
    channel = at.own_channel(channels);
    weight = load_early_or(p.weight, channel, 1), bias = load_early_or(p.bias, channel, 0);
  }
}

}  // namespace minuet
