// This file declares small enumerations that select kernels, and arguments that several kernels share. The
// element types are in dtypes.h.
#pragma once

#include "kernels_templates/shared/dtypes.h"

namespace minuet {

/// Selects the width of a packed coordinate key.
enum class KeyType : i32 { U32, U64 };

/// Selects a function of one number, for example the last step of an epilogue. activation_functions.h
/// computes it.
enum class Activation : i32 {
  None,       // Computes x.
  ReLU,       // Computes x, or 0 if x is negative.
  LeakyReLU,  // Computes x, or x * slope if x is negative.
  Gelu,       // Computes x / 2 * (1 + erf(x / sqrt(2))).
  GeluTanh,   // Computes x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
  Silu,       // Computes x / (1 + exp(-x)).
  Sigmoid,    // Computes 1 / (1 + exp(-x)).
  Tanh,
};
constexpr i32 kActivations = static_cast<i32>(Activation::Tanh) + 1;

/// Holds the arguments for the second output of a convolution kernel, which is activation(x * scale + shift)
/// of each element x of the first output as it is stored. The kernel reads it only if the Spec has a second
/// output.
struct SecondOutput {
  const float* scale;  // Has an element for each channel and is aligned to 16 bytes, as is `shift`.
  const float* shift;
  void* output;
  i64 output_ld;
  u32* overflow;  // The kernel treats it as the first output's `overflow`.
  float slope;    // Gives the slope of a leaky ReLU. Other activations do not read it.
};

MINUET_HD constexpr i32 key_bytes(KeyType type) { return type == KeyType::U64 ? 8 : 4; }

template <KeyType K>
struct KeyOf {
  using Type = u32;
};
template <>
struct KeyOf<KeyType::U64> {
  using Type = u64;
};

/// These are the maximum numbers of spatial axes of a coordinate, and of fields of a packed key, which also
/// has the batch.
constexpr i32 kMaxDim = 4;
constexpr i32 kMaxFields = kMaxDim + 1;

}  // namespace minuet
