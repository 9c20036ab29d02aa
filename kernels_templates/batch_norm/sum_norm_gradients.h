// The kernel sum_norm_gradients stores the sums of gradient and gradient * (input - mean) of each channel
// over the rows of each piece (shared/batch_norm_kernels.h), where the gradient is that of the output, masked
// by the ReLU. It stores the masked gradient as the residual's if that is wanted. Blocks and threads divide
// the rows as those of sum_moments do, and the sums of threads are added in order.
#pragma once

#include "kernels_templates/batch_norm/block_sums.h"
#include "kernels_templates/batch_norm/gradient_mask.h"

namespace minuet {

template <SumNormGradientsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads, norm_blocks_at_once(S)) void sum_norm_gradients(
    MINUET_PARAMS(BatchNormGradientParams) p) {
  using Thread = NormThread<S, kNormBatch / 2>;
  constexpr i32 kElements = Thread::kElements;
  __shared__ ChannelNumbers<Thread, 3> shared;
  __shared__ PieceSums shares[kElements * S.threads];
  __shared__ PieceSums combined[S.threads];
  const i32 channels = p.shape.channels, thread = static_cast<i32>(threadIdx.x);
  const i64 groups = norm_groups(S, channels);
  Thread at(blockIdx.x, groups, channels);
  follow_last_launch();
  const NormPieces pieces(used_rows(p.shape));
  // The residual's gradient is stored in the rows of padding too.
  const i64 last = p.residual_gradient.data != nullptr ? p.shape.rows : pieces.rows();
  for (i64 item = blockIdx.x; item < pieces.count_up_to(last) * groups;) {
    const i64 begin = pieces.begin(at.part);
    const i32 used = pieces.rows_within(at.part, pieces.rows()), end = pieces.rows_within(at.part, last);
    Vector<S.vector_bytes> inputs[Thread::kBatch], gradients[Thread::kBatch], outputs[Thread::kBatch];
    const auto load = [&](i32 b, bool present, i32 row) {
      const bool is_used = present && row < used;
      inputs[b] = at.load(is_used, p.input, begin + row);
      gradients[b] = at.load(is_used, p.out_gradient, begin + row);
      if constexpr (S.mask == ReluMask::Output) outputs[b] = at.load(is_used, p.output, begin + row);
    };
    at.load_batch(end, load);
    const i64 own = at.own_channel(channels);
    if (own >= 0) {
      shared.numbers[0][thread] = fresh(p.saved + own);
      if constexpr (S.mask == ReluMask::Input) {
        const float weight = p.weight == nullptr ? 1 : fresh(p.weight + own);
        shared.numbers[1][thread] = fresh(p.saved + channels + own) * weight;
        shared.numbers[2][thread] = p.bias == nullptr ? 0 : fresh(p.bias + own);
      }
    }
    __syncthreads();
    float sum[kElements] = {}, product[kElements] = {};
    at.for_rows(end, load, [&](i32 b, i32 row) {
      NormChannel numbers[kElements];
      shared.read(at, numbers);
      float x[kElements], gradient[kElements], output[kElements];
      to_floats<S.io>(inputs[b], x);
      to_floats<S.io>(gradients[b], gradient);
      if constexpr (S.mask == ReluMask::Output) to_floats<S.io>(outputs[b], output);
      if constexpr (S.mask != ReluMask::None) {
        mask_gradients<S, kElements>(numbers, S.mask == ReluMask::Output ? output : x, gradient);
      }
      if (p.residual_gradient.data != nullptr) at.store(p.residual_gradient, begin + row, gradient);
      if (row >= used) return;
      MINUET_UNROLL
      for (i32 v = 0; v < kElements; ++v) {
        sum[v] += gradient[v];
        product[v] = multiply_add(gradient[v], x[v] - numbers[v].mean, product[v]);
      }
    });
    MINUET_UNROLL
    for (i32 v = 0; v < kElements; ++v) shares[v * S.threads + thread] = {sum[v], product[v]};
    const PieceSums sums = combine_shares<Thread, Thread::kRowsAtOnce>(shares, combined, SumsOfShares{});
    const i64 channel = at.group * Thread::kColumns + thread % S.lanes * kElements + thread / S.lanes;
    if (thread < Thread::kColumns && channel < channels && at.part < pieces.count())
      p.pieces[at.part * channels + channel] = sums;
    item += gridDim.x;
    at = Thread(item, groups, channels);
    __syncthreads();
  }
}

}  // namespace minuet
