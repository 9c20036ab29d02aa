// This file computes the epilogue of an output element in fp32, which is activation(sum * scale + shift +
// residual).
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Applies the activation. NaN passes through, whereas max(x, 0) would turn it into 0 and hide it. Only
/// LeakyReLU reads `slope`.
template <Activation A>
MINUET_HD float activate(float value, float slope) {
  static_assert(A == Activation::None || A == Activation::ReLU || A == Activation::LeakyReLU);
  if constexpr (A == Activation::LeakyReLU) return value < 0.0f ? value * slope : value;
  return A == Activation::ReLU && value < 0.0f ? 0.0f : value;
}

/// Computes the epilogue. The template arguments select the steps, so operands of disabled steps are not
/// read.
template <bool ScaleShift, bool Residual, Activation A>
MINUET_HD float epilogue(float sum, float scale, float shift, float residual, float slope) {
  float value = sum;
  if constexpr (ScaleShift) value = value * scale + shift;
  if constexpr (Residual) value += residual;
  return activate<A>(value, slope);
}

}  // namespace minuet
