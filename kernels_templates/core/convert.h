// Element conversion between fp32 and the storage types: one instruction on a device, bit arithmetic
// with the same result on a host (round to nearest, ties to even; tf32: ties away from zero).
//
// Sixteen-bit elements are handled as bits, so that no kernel needs cuda_fp16.h or cuda_bf16.h.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

using u16 = unsigned short;

constexpr u32 kFloatMagnitude = 0x7fffffffu;
constexpr u32 kFloatInfinity = 0x7f800000u;

MINUET_HD u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
MINUET_HD float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }

/// Nearest tf32, as an fp32 whose 13 low bits are 0; NaN stays NaN.
MINUET_HD u32 round_to_tf32(u32 bits) {
#if defined(__CUDA_ARCH__)
  u32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(float_of(bits)));
  return rounded;
#else
  if ((bits & kFloatMagnitude) > kFloatInfinity) return kFloatMagnitude;
  return (bits + 0x1000u) & ~0x1fffu;
#endif
}

MINUET_HD u16 to_bf16(float value) {
#if defined(__CUDA_ARCH__)
  u16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  const u32 bits = bits_of(value);
  if ((bits & kFloatMagnitude) > kFloatInfinity) return 0x7fff;
  return static_cast<u16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

MINUET_HD float from_bf16(u16 bits) { return float_of(static_cast<u32>(bits) << 16); }

MINUET_HD u16 to_f16(float value) {
#if defined(__CUDA_ARCH__)
  u16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  const u32 bits = bits_of(value);
  const u32 magnitude = bits & kFloatMagnitude;
  const u32 sign = (bits >> 16) & 0x8000u;
  if (magnitude > kFloatInfinity) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<u16>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Subnormal results: adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded by the
    // addition itself.
    const u32 shifted = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    return static_cast<u16>(sign | shifted);
  }
  const u32 rebiased = magnitude - 0x38000000u;
  return static_cast<u16>(sign | ((rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13));
#endif
}

MINUET_HD float from_f16(u16 bits) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
  return result;
#else
  const u32 sign = static_cast<u32>(bits & 0x8000u) << 16;
  const u32 magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of(sign | kFloatInfinity | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return float_of(sign | bits_of(value));
  }
  return float_of(sign | ((magnitude << 13) + 0x38000000u));
#endif
}

template <DType T>
MINUET_HD float from_16_bits(u16 bits) {
  return T == DType::BF16 ? from_bf16(bits) : from_f16(bits);
}

template <DType T>
MINUET_HD u16 to_16_bits(float value) {
  return T == DType::BF16 ? to_bf16(value) : to_f16(value);
}

/// Two elements in one register, the first in the low half.
template <DType T>
MINUET_HD u32 to_16_bit_pair(float low, float high) {
#if defined(__CUDA_ARCH__)
  u32 pair;
  if constexpr (T == DType::BF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  return to_16_bits<T>(low) | static_cast<u32>(to_16_bits<T>(high)) << 16;
#endif
}

template <DType T>
MINUET_HD void from_16_bit_pair(u32 pair, float* values) {
  values[0] = from_16_bits<T>(static_cast<u16>(pair & 0xffffu));
  values[1] = from_16_bits<T>(static_cast<u16>(pair >> 16));
}

}  // namespace minuet
