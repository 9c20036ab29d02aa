// What happens to a sum before it is written: * scale + shift, + residual, activation; all in fp32.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// NaN passes through: max(x, 0) would turn it into 0 and hide it. Only a leaky ReLU looks at the slope.
template <Activation A>
MINUET_HD float activate(float value, float slope) {
  if constexpr (A == Activation::LeakyReLU) return value < 0.0f ? value * slope : value;
  return A == Activation::ReLU && value < 0.0f ? 0.0f : value;
}

/// A null-like choice is made at compile time: unused operands are not looked at.
template <bool ScaleShift, bool Residual, Activation A>
MINUET_HD float epilogue(float sum, float scale, float shift, float residual, float slope) {
  float value = sum;
  if constexpr (ScaleShift) value = value * scale + shift;
  if constexpr (Residual) value += residual;
  return activate<A>(value, slope);
}

}  // namespace minuet
