// The kernel normalize_gradients computes the gradient of the input of a batch norm from the sums of all
// rows:
//   inverse_std * weight * (gradient - mean of gradients - normalized * mean of (gradient * normalized))
// in the rows in use, and stores 0 in the others. A block works on one piece of rows and S.lanes vectors of
// channels at a time (shared/batch_norm_kernels.h).
#pragma once

#include "kernels_templates/batch_norm/gradient_mask.h"

namespace minuet {

template <NormalizeGradientsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void normalize_gradients(MINUET_PARAMS(BatchNormGradientParams)
                                                                           p) {
  using Thread = NormThread<S>;
  constexpr i32 kElements = Thread::kElements;
  follow_last_launch();
  const i64 rows = used_rows(p.shape), groups = norm_groups(S, p.shape.channels);
  const float count = fresh(p.saved + 2 * p.shape.channels);
  // The first pass has left the last rows in the L2 cache, so this one begins with them.
  for (i64 item = norm_pieces(p.shape.rows) * groups - 1 - blockIdx.x; item >= 0; item -= gridDim.x) {
    const Thread at(item, groups, p.shape.channels);
    Vector<S.vector_bytes> inputs[Thread::kBatch], gradients[Thread::kBatch];
    const auto load = [&](i32 b, bool present, i64 row) {
      inputs[b] = at.load(present && row < rows, p.input, row);
      gradients[b] = at.load(present && row < rows, p.out_gradient, row);
    };
    at.load_first(p.shape.rows, load);
    NormChannel channels[kElements];
    at.load_channels(p.saved, p.shape.channels, p.weight, p.bias, channels);
    float inverse_std[kElements], mean[kElements], slope[kElements];
    at.load_channels(p.saved + p.shape.channels, 0, inverse_std);
    at.load_channels(p.sums, 0, mean);
    at.load_channels(p.sums + p.shape.channels, 0, slope);
    MINUET_UNROLL
    for (i32 v = 0; v < kElements; ++v) {
      mean[v] = mean_of_sum(mean[v], count);
      slope[v] = mean_of_sum(slope[v], count) * inverse_std[v];
    }
    at.for_rows(p.shape.rows, load, [&](i32 b, i64 row) {
      float x[kElements], gradient[kElements];
      to_floats<S.io>(inputs[b], x);
      to_floats<S.io>(gradients[b], gradient);
      if constexpr (S.mask != ReluMask::None) mask_gradients<S, kElements>(channels, x, gradient);
      MINUET_UNROLL
      for (i32 v = 0; v < kElements; ++v) {
        gradient[v] = input_gradient_of(channels[v], x[v], gradient[v], mean[v], slope[v]);
        if (row >= rows) gradient[v] = 0;
      }
      at.store(p.input_gradient, row, gradient);
    });
  }
}

}  // namespace minuet
