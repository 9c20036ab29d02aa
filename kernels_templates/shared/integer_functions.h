// This file converts between fp32 numbers and the 8-bit integers of features (DType::U8 and DType::S8).
// Kernels and the CPU device use it. All devices compute the same bits: each function rounds once, to nearest
// with ties to even.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Returns a * b + c, rounded once.
MINUET_HD float fused_multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// Returns the integer nearest to the number, or the nearest one that an i32 can hold. NaN becomes 0.
MINUET_HD i32 nearest_integer(float value) {
#if defined(__CUDA_ARCH__)
  return __float2int_rn(value);
#else
  if (value != value) return 0;
  if (value >= 0x1p31f) return 0x7fffffff;
  if (value <= -0x1p31f) return -0x7fffffff - 1;
  return static_cast<i32>(__builtin_nearbyintf(value));
#endif
}

/// Returns the fp32 number nearest to the integer.
MINUET_HD float nearest_float(i32 value) {
#if defined(__CUDA_ARCH__)
  return __int2float_rn(value);
#else
  return static_cast<float>(value);
#endif
}

/// Returns a + b modulo 2^32, as a device adds.
MINUET_HD i32 wrapping_sum(i32 a, i32 b) {
  return static_cast<i32>(static_cast<u32>(a) + static_cast<u32>(b));
}

/// Returns the integer of the type T that is nearest to the number. It is 0 to 255 for U8 and -127 to 127 for
/// S8.
template <DType T>
MINUET_HD i32 to_integer(float value) {
  static_assert(is_integer(T), "an integer type");
  constexpr i32 kLeast = T == DType::U8 ? 0 : -127, kMost = T == DType::U8 ? 255 : 127;
  const i32 nearest = nearest_integer(value);
  return nearest < kLeast ? kLeast : nearest > kMost ? kMost : nearest;
}

}  // namespace minuet
