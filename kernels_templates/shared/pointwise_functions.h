// This file computes the steps of a pointwise chain that map one number to one number. The kernel and the CPU
// device both use it. NaN stays NaN in every function.
#pragma once

#include "kernels_templates/shared/pointwise_kernels.h"

namespace minuet {

// A device compiler has the following functions of the C library built in, and a host compiler has them as
// builtins, so that no header of the C library is needed.
MINUET_HD float exponential(float x) {
#if defined(__CUDA_ARCH__)
  return expf(x);
#else
  return __builtin_expf(x);
#endif
}
MINUET_HD float error_function(float x) {
#if defined(__CUDA_ARCH__)
  return erff(x);
#else
  return __builtin_erff(x);
#endif
}
MINUET_HD float hyperbolic_tangent(float x) {
#if defined(__CUDA_ARCH__)
  return tanhf(x);
#else
  return __builtin_tanhf(x);
#endif
}
MINUET_HD float square_root(float x) {
#if defined(__CUDA_ARCH__)
  return sqrtf(x);
#else
  return __builtin_sqrtf(x);
#endif
}

/// Returns a / b for b >= 1. A device is off by at most 2 units in the last place, and returns 0 instead of a
/// quotient of less than 2^-126 * a.
MINUET_HD float quotient_of(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdividef(a, b);
#else
  return a / b;
#endif
}

/// Applies a step that reads neither an operand nor other channels. `number` is that of the step.
template <PointwiseKind K>
MINUET_HD float apply_function(float x, float number) {
  static_assert(K >= PointwiseKind::ReLU && K <= PointwiseKind::Tanh, "a function of one number");
  if constexpr (K == PointwiseKind::ReLU) return x < 0.0f ? 0.0f : x;
  if constexpr (K == PointwiseKind::LeakyReLU) return x < 0.0f ? x * number : x;
  if constexpr (K == PointwiseKind::Gelu) return 0.5f * x * (1.0f + error_function(x * 0.70710678f));
  if constexpr (K == PointwiseKind::GeluTanh) {
    const float inner = 0.79788456f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.0f + hyperbolic_tangent(inner));
  }
  if constexpr (K == PointwiseKind::Silu) return quotient_of(x, 1.0f + exponential(-x));
  if constexpr (K == PointwiseKind::Sigmoid) return quotient_of(1.0f, 1.0f + exponential(-x));
  return hyperbolic_tangent(x);
}

/// Returns true if `value` replaces the maximum `before` of lower channels. The first of several equal
/// numbers, or of several NaN, stays. NaN counts as the largest number.
MINUET_HD bool is_larger(float value, float before) {
  return value > before || (value != value && before == before);
}

}  // namespace minuet
