// This file computes the activations, which map one number to one number. The kernels of convolutions and of
// pointwise chains use it, and so does the CPU device. NaN stays NaN in every function.
#pragma once

#include "kernels_templates/shared/types.h"

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
/// Returns 2^x. A device is off by at most 2 units in the last place, and returns 0 where the result is below
/// 2^-126, which takes one instruction.
MINUET_HD float power_of_two(float x) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return __builtin_exp2f(x);
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

/// Returns a * b + c. A device rounds once, in one instruction, although kernels are compiled without the
/// contraction of products and sums.
MINUET_HD float multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}

/// Returns 1 / b for b >= 1. A device is off by at most 1 unit in the last place, and returns 0 where the
/// result is below 2^-126, which takes one instruction.
MINUET_HD float reciprocal(float b) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(b));
  return result;
#else
  return 1.0f / b;
#endif
}

/// Returns a / b for b >= 1. A device is off by at most 2 units in the last place, and returns 0 for a finite
/// a if b exceeds 2^126.
MINUET_HD float quotient_of(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdividef(a, b);
#else
  return a / b;
#endif
}

/// Returns erfc(x / sqrt(2)) / 2 for x >= 0, as exp(-x^2 / 2) times a polynomial in t = 1 / (1 + 0.2758 x),
/// whose coefficients were fitted by least squares. The result is off by at most 2.2e-7. A call of erff()
/// would take twice as many instructions, which a device would have no time for while it loads and stores
/// elements of 16 bits.
MINUET_HD float half_erfc(float x) {
  const float t = reciprocal(multiply_add(0.27577165f, x, 1.0f));
  float polynomial = -0.11268207f;
  polynomial = multiply_add(polynomial, t, 0.43898833f);
  polynomial = multiply_add(polynomial, t, -0.31080702f);
  polynomial = multiply_add(polynomial, t, 0.31935418f);
  polynomial = multiply_add(polynomial, t, 0.04781183f);
  polynomial = multiply_add(polynomial, t, 0.1173348f);
  return t * polynomial * power_of_two(-0.72134752f * x * x);
}

/// Computes x / 2 * (1 + erf(x / sqrt(2))) as max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)). The result is off by
/// at most 2.2e-7 * |x|.
MINUET_HD float gelu(float x) {
  const float size = x < 0.0f ? -x : x;
  // Infinity times 0 would be NaN.
  const float limited = size < 30.0f ? size : 30.0f;
  return multiply_add(-limited, half_erfc(limited), x < 0.0f ? 0.0f : x);
}

/// Computes x / 2 * (1 + tanh(y)) with y = sqrt(2 / pi) * (x + 0.044715 x^3) as x / (1 + exp(-2 y)).
MINUET_HD float gelu_tanh(float x) {
  const float y = 0.79788456f * (x + 0.044715f * x * x * x);
  return quotient_of(x, 1.0f + exponential(-2.0f * y));
}

/// Says whether a ReLU passes on the gradient of its result. `kept` is its input or its result. NaN counts as
/// positive, as in activate(), so that the gradient passes.
MINUET_HD bool relu_passes_gradient(float kept) { return !(kept <= 0.0f); }

/// Applies the activation. Only LeakyReLU reads `slope`. A ReLU passes NaN through, whereas max(x, 0) would
/// turn it into 0 and hide it.
template <Activation A>
MINUET_HD float activate(float x, float slope) {
  if constexpr (A == Activation::None) return x;
  if constexpr (A == Activation::ReLU) return x < 0.0f ? 0.0f : x;
  if constexpr (A == Activation::LeakyReLU) return x < 0.0f ? x * slope : x;
  if constexpr (A == Activation::Gelu) return gelu(x);
  if constexpr (A == Activation::GeluTanh) return gelu_tanh(x);
  if constexpr (A == Activation::Silu) return quotient_of(x, 1.0f + exponential(-x));
  if constexpr (A == Activation::Sigmoid) return reciprocal(1.0f + exponential(-x));
  if constexpr (A == Activation::Tanh) return hyperbolic_tangent(x);
}

}  // namespace minuet
