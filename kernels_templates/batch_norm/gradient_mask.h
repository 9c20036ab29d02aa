// This file finds the gradients that the ReLU of a batch norm passes on.
#pragma once

#include "kernels_templates/batch_norm/norm_rows.h"

namespace minuet {

/// Sets the gradients of elements to 0 whose output a ReLU made 0. `stored_or_input` holds the stored outputs
/// for ReluMask::Output and the inputs for ReluMask::Input.
template <auto S, i32 Elements>
MINUET_DEVICE void mask_gradients(const NormChannel* channels, const float* stored_or_input,
                                  float* gradients) {
  MINUET_UNROLL
  for (i32 v = 0; v < Elements; ++v) {
    float stored = stored_or_input[v];
    // A result that is too small for the type is stored as 0.
    if constexpr (S.mask == ReluMask::Input) stored = as_stored<S.io>(normalized(channels[v], stored));
    if (!relu_passes_gradient(stored)) gradients[v] = 0;
  }
}

}  // namespace minuet
