// The kernel normalize_gradients computes the gradient of the input of a batch norm from the sums of all
// rows:
//   inverse_std * weight * (gradient - mean of gradients - normalized * mean of (gradient * normalized))
// in the rows in use, and stores 0 in the others. A block works on norm_block_rows() rows and S.lanes vectors
// of channels at a time (shared/batch_norm_kernels.h). Unless it is the first of a call,
// finish_norm_gradients is the launch before and writes only the sums and the gradients of weight and bias,
// so that a block loads its first rows early.
#pragma once

#include "kernels_templates/batch_norm/gradient_mask.h"

namespace minuet {

template <NormalizeGradientsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads, norm_blocks_at_once(S)) void normalize_gradients(
    MINUET_PARAMS(BatchNormGradientParams) p) {
  using Thread = NormThread<S, kNormBatch>;
  constexpr i32 kElements = Thread::kElements;
  __shared__ ChannelNumbers<Thread, 5> shared;
  if (p.is_first != 0) wait_for_last_launch();
  const i32 channels = p.shape.channels;
  const i64 rows = early_count_within(p.shape.count, p.shape.rows), groups = norm_groups(S, channels);
  // The first pass has left the last rows in the L2 cache, so this one begins with them.
  i64 item = norm_blocks(S, p.shape.rows) * groups - 1 - blockIdx.x;
  Thread at(item < 0 ? 0 : item, groups, channels);
  i64 begin = at.part * norm_block_rows(S);
  Vector<S.vector_bytes> inputs[Thread::kBatch], gradients[Thread::kBatch];
  const auto load = [&](i32 b, bool present, i32 row) {
    inputs[b] = at.load_early(present, p.input, begin + row);
    gradients[b] = at.load_early(present, p.out_gradient, begin + row);
  };
  at.load_batch(item < 0 ? 0 : norm_rows_from(S, begin, rows), load);
  const float count = load_early_or(p.saved, 2 * channels, 0);
  i64 channel = -1;
  float mean = 0, inverse_std = 0, weight = 0, bias = 0;
  const auto load_channel = [&] {
    channel = at.own_channel(channels);
    mean = load_early_or(p.saved, channel, 0), inverse_std = load_early_or(p.saved + channels, channel, 0);
    weight = load_early_or(p.weight, channel, 1), bias = load_early_or(p.bias, channel, 0);
  };
  load_channel();
  follow_last_launch();
  for (i64 prepared = -1; item >= 0;) {
    if (prepared != at.group) {
      prepared = at.group;
      __syncthreads();
      if (channel >= 0) {
        const float sum = fresh(p.sums + channel), product = fresh(p.sums + channels + channel);
        shared.numbers[0][threadIdx.x] = mean;
        shared.numbers[1][threadIdx.x] = inverse_std * weight;
        shared.numbers[2][threadIdx.x] = bias;
        shared.numbers[3][threadIdx.x] = mean_of_sum(sum, count);
        shared.numbers[4][threadIdx.x] = mean_of_sum(product, count) * inverse_std;
      }
      __syncthreads();
    }
    const float *const means = shared.of(at, 3), *const slopes = shared.of(at, 4);
    const i32 used = norm_rows_from(S, begin, rows);
    at.use_batch(norm_rows_from(S, begin, p.shape.rows), [&](i32 b, i32 row) {
      NormChannel numbers[kElements];
      shared.read(at, numbers);
      float x[kElements], gradient[kElements];
      to_floats<S.io>(inputs[b], x);
      to_floats<S.io>(gradients[b], gradient);
      if constexpr (S.mask != ReluMask::None) mask_gradients<S, kElements>(numbers, x, gradient);
      MINUET_UNROLL
      for (i32 v = 0; v < kElements; ++v) {
        gradient[v] = input_gradient_of(numbers[v], x[v], gradient[v], means[v], slopes[v]);
        if (row >= used) gradient[v] = 0;
      }
      at.store(p.input_gradient, begin + row, gradient);
    });
    item -= gridDim.x;
    if (item < 0) return;
    at = Thread(item, groups, channels);
    begin = at.part * norm_block_rows(S);
    at.load_batch(norm_rows_from(S, begin, rows), load);
    if (prepared != at.group) load_channel();
  }
}

}  // namespace minuet
