// This file computes the gradients of the activations, which multiply the gradient of an activation's result
// by its derivative at a kept number. Kernels and the CPU device share it.
#pragma once

#include "kernels_templates/shared/activation_functions.h"

namespace minuet {

/// Returns x within [-limit, limit], or NaN for NaN. Beyond the limits that are passed here, a derivative is
/// within 1e-32 of 0 or equals 1, but its formula would multiply infinity by 0.
MINUET_HD float limit_to(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

/// Returns the derivative of gelu(): the normal distribution's cumulative function plus x times its density.
MINUET_HD float gelu_derivative(float given) {
  const float x = limit_to(given, 15.0f), tail = half_erfc(x < 0.0f ? -x : x);
  const float density = 0.39894228f * power_of_two(-0.72134752f * x * x);
  return (x < 0.0f ? tail : 1.0f - tail) + x * density;
}

/// Returns the derivative of gelu_tanh().
MINUET_HD float gelu_tanh_derivative(float given) {
  const float x = limit_to(given, 10.0f), square = x * x;
  const float power = exponential(-2.0f * 0.79788456f * (x + 0.044715f * x * square));
  // The result of gelu_tanh() is x * sigmoid, where sigmoid = 1 / (1 + power).
  const float sigmoid = reciprocal(1.0f + power), rest = power * sigmoid;  // rest is 1 - sigmoid.
  return sigmoid + x * sigmoid * rest * 1.59576912f * (1.0f + 0.134145f * square);
}

/// Returns the derivative of x / (1 + exp(-x)).
MINUET_HD float silu_derivative(float given) {
  const float x = limit_to(given, 80.0f), power = exponential(-x);
  const float sigmoid = reciprocal(1.0f + power), rest = power * sigmoid;  // rest is 1 - sigmoid.
  return sigmoid + x * sigmoid * rest;
}

/// Returns the gradient of the input of an activation from the gradient of its result. `kept` is the result
/// of a sigmoid or tanh, and otherwise the input, in whose place the result of a ReLU serves too. Only
/// LeakyReLU reads `slope`. A kept NaN gives NaN, except that the ReLUs take it for a positive number.
template <Activation A>
MINUET_HD float activation_gradient(float gradient, float kept, float slope) {
  if constexpr (A == Activation::ReLU || A == Activation::LeakyReLU) {
    // A product with 0 would turn an infinite gradient into NaN; the select gives 0.
    const float otherwise = A == Activation::ReLU ? 0.0f : gradient * slope;
    return relu_passes_gradient(kept) ? gradient : otherwise;
  }
  if constexpr (A == Activation::Gelu) return gradient * gelu_derivative(kept);
  if constexpr (A == Activation::GeluTanh) return gradient * gelu_tanh_derivative(kept);
  if constexpr (A == Activation::Silu) return gradient * silu_derivative(kept);
  if constexpr (A == Activation::Sigmoid) return gradient * (kept * (1.0f - kept));
  if constexpr (A == Activation::Tanh) {
    // 1 - kept^2 would lose all accuracy where `kept` is near 1 or -1.
    return gradient * ((1.0f - kept) * (1.0f + kept));
  }
  return gradient;
}

}  // namespace minuet
