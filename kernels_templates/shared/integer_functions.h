// This file converts between fp32 numbers and the 8-bit integers of features (DType::U8 and DType::S8).
// Kernels and the CPU device use it. Each function rounds once, to nearest with ties to even. All devices
// compute the same bits, if the host's threads have the default rounding mode: fused_multiply_add() and
// nearest_float() round in the mode of the thread. This is also true for the numbers behind no activation, a
// ReLU and a leaky ReLU. The other activations use approximate functions of a device
// (activation_functions.h), so that an 8-bit number behind them may differ by 1 between devices.
//
// On a host, all functions are always inlined, because runtime/vector/vector_kernels.cc uses them
// (shared/elements.h).
#pragma once

#include "kernels_templates/shared/types.h"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define MINUET_INLINED_HD MINUET_HD
#else
#define MINUET_INLINED_HD [[gnu::always_inline]] inline
#endif

namespace minuet {

/// Returns a * b + c, rounded once.
MINUET_INLINED_HD float fused_multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// Returns the integer nearest to the number, or the nearest one that an i32 can hold. NaN becomes 0. The
/// rounding mode of the host's thread does not matter.
MINUET_INLINED_HD i32 nearest_integer(float value) {
#if defined(__CUDA_ARCH__)
  return __float2int_rn(value);
#else
  constexpr float kLimit = 0x1p31f;
  // There are no branches, so that a compiler can compute several numbers at a time.
  const i32 is_high = value >= kLimit, is_low = value <= -kLimit, is_nan = value != value;
  const i32 is_usual = (is_high | is_low | is_nan) ^ 1;
  const float usual = __builtin_bit_cast(float, __builtin_bit_cast(i32, value) & -is_usual);  // Or 0.
  const i32 whole = static_cast<i32>(usual);             // Conversions round to zero in every mode.
  const float rest = usual - static_cast<float>(whole);  // Both conversions and the difference are exact.
  // A number in the middle of two integers is rounded away from zero if that gives an even number.
  const i32 is_odd = whole & 1, above = rest > 0.5f, below = rest < -0.5f;
  const i32 at_half = rest == 0.5f, at_minus_half = rest == -0.5f;
  const i32 nearest = whole + (above | (at_half & is_odd)) - (below | (at_minus_half & is_odd));
  return nearest + is_high * 0x7fffffff + is_low * (-0x7fffffff - 1);
#endif
}

/// Returns the fp32 number nearest to the integer.
MINUET_INLINED_HD float nearest_float(i32 value) {
#if defined(__CUDA_ARCH__)
  return __int2float_rn(value);
#else
  return static_cast<float>(value);
#endif
}

/// Returns a + b modulo 2^32, as a device adds.
MINUET_INLINED_HD i32 wrapping_sum(i32 a, i32 b) {
  return static_cast<i32>(static_cast<u32>(a) + static_cast<u32>(b));
}

/// Returns the integer of the type T that has these 8 bits. All other bits must be 0.
template <DType T>
MINUET_INLINED_HD i32 integer_of(u32 bits) {
  static_assert(is_integer(T), "an integer type");
  return T == DType::U8 ? static_cast<i32>(bits) : static_cast<i32>(bits ^ 0x80u) - 0x80;
}

/// Returns the integer of the type T that is nearest to the number.
template <DType T>
MINUET_INLINED_HD i32 to_integer(float value) {
  static_assert(is_integer(T), "an integer type");
  constexpr i32 kLeast = smallest_integer(T), kMost = largest_integer(T);
  const i32 nearest = nearest_integer(value);
  return nearest < kLeast ? kLeast : nearest > kMost ? kMost : nearest;
}

}  // namespace minuet
