// This file computes the epilogue of an output element in fp32, which is activation(sum * scale + shift +
// residual).
#pragma once

#include "kernels_templates/shared/activation_functions.h"

namespace minuet {

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
