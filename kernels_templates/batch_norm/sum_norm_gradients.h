// The kernel sum_norm_gradients stores the sums of gradient and gradient * (input - mean) of each channel
// over the rows of each piece (shared/batch_norm_kernels.h), as pieces[piece][0][channel] and
// pieces[piece][1][channel], where the gradient is that of the output, masked by the ReLU. It stores the
// masked gradient as the residual's if that is wanted. Blocks and threads divide the rows as those of
// sum_moments do, and the sums of threads are added in order.
#pragma once

#include "kernels_templates/batch_norm/gradient_mask.h"

namespace minuet {

template <SumNormGradientsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void sum_norm_gradients(MINUET_PARAMS(BatchNormGradientParams)
                                                                          p) {
  using Thread = NormThread<S>;
  constexpr i32 kElements = Thread::kElements;
  follow_last_launch();
  __shared__ float sums[2][kElements * S.threads];
  const i64 rows = used_rows(p.shape), groups = norm_groups(S, p.shape.channels);
  // The residual's gradient is stored in the rows of padding too.
  const i64 end = p.residual_gradient.data != nullptr ? p.shape.rows : rows;
  const i32 thread = static_cast<i32>(threadIdx.x);
  for (i64 item = blockIdx.x; item < norm_pieces(end) * groups; item += gridDim.x) {
    const Thread at(item, groups, p.shape.channels);
    Vector<S.vector_bytes> inputs[Thread::kBatch], gradients[Thread::kBatch], outputs[Thread::kBatch];
    const auto load = [&](i32 b, bool present, i64 row) {
      const bool used = present && row < rows;
      inputs[b] = at.load(used, p.input, row);
      gradients[b] = at.load(used, p.out_gradient, row);
      if constexpr (S.mask == ReluMask::Output) outputs[b] = at.load(used, p.output, row);
    };
    at.load_first(end, load);
    NormChannel channels[kElements];
    at.load_channels(p.saved, p.shape.channels, p.weight, p.bias, channels);
    float sum[kElements] = {}, product[kElements] = {};
    at.for_rows(end, load, [&](i32 b, i64 row) {
      float x[kElements], gradient[kElements], output[kElements];
      to_floats<S.io>(inputs[b], x);
      to_floats<S.io>(gradients[b], gradient);
      if constexpr (S.mask == ReluMask::Output) to_floats<S.io>(outputs[b], output);
      if constexpr (S.mask != ReluMask::None) {
        mask_gradients<S, kElements>(channels, S.mask == ReluMask::Output ? output : x, gradient);
      }
      if (p.residual_gradient.data != nullptr) at.store(p.residual_gradient, row, gradient);
      if (row >= rows) return;
      MINUET_UNROLL
      for (i32 v = 0; v < kElements; ++v) {
        sum[v] += gradient[v];
        product[v] = multiply_add(gradient[v], x[v] - channels[v].mean, product[v]);
      }
    });
    MINUET_UNROLL
    for (i32 v = 0; v < kElements; ++v) {
      sums[0][v * S.threads + thread] = sum[v];
      sums[1][v * S.threads + thread] = product[v];
    }
    __syncthreads();
    const i64 channel = at.group * Thread::kColumns + thread % S.lanes * kElements + thread / S.lanes;
    if (thread < Thread::kColumns && channel < p.shape.channels && at.piece < norm_pieces(rows)) {
      const i32 first = thread / S.lanes * S.threads + thread % S.lanes;
      MINUET_UNROLL
      for (i32 which = 0; which < 2; ++which) {
        float total = 0;
        for (i32 share = 0; share < Thread::kRowsAtOnce; ++share)
          total += sums[which][first + share * S.lanes];
        p.pieces[(at.piece * 2 + which) * p.shape.channels + channel] = total;
      }
    }
    __syncthreads();
  }
}

}  // namespace minuet
