// This file converts elements between fp32 and the storage types. A device uses one instruction per
// conversion. A host uses shared/elements.h with the same results, except that every NaN becomes one
// canonical pattern here, as on a device.
//
// 16-bit elements are handled as bits, so that no kernel needs cuda_fp16.h or cuda_bf16.h.
#pragma once

#include "kernels_templates/shared/types.h"
#if !defined(__CUDA_ARCH__)
#include "kernels_templates/shared/elements.h"
#endif

namespace minuet {

constexpr u32 kFloatMagnitude = 0x7fffffffu;
constexpr u32 kFloatInfinity = 0x7f800000u;

MINUET_HD u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
MINUET_HD float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }
MINUET_HD bool is_nan(u32 bits) { return (bits & kFloatMagnitude) > kFloatInfinity; }

/// Rounds to the nearest tf32 and returns it as fp32 bits whose 13 low bits are 0. NaN stays NaN.
MINUET_HD u32 round_to_tf32(u32 bits) {
#if defined(__CUDA_ARCH__)
  u32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(float_of(bits)));
  return rounded;
#else
  return is_nan(bits) ? kFloatMagnitude : bits_of(Element<DType::TF32>::operand(float_of(bits)));
#endif
}

MINUET_HD u16 to_bf16(float value) {
#if defined(__CUDA_ARCH__)
  u16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  return is_nan(bits_of(value)) ? u16{0x7fff} : Element<DType::BF16>::store(value);
#endif
}

MINUET_HD float from_bf16(u16 bits) { return float_of(static_cast<u32>(bits) << 16); }

MINUET_HD u16 to_f16(float value) {
#if defined(__CUDA_ARCH__)
  u16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  return is_nan(bits_of(value)) ? u16{0x7fff} : Element<DType::F16>::store(value);
#endif
}

MINUET_HD float from_f16(u16 bits) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
  return result;
#else
  return Element<DType::F16>::load(bits);
#endif
}

template <DType T>
MINUET_HD float from_16_bits(u16 bits) {
  static_assert(T == DType::F16 || T == DType::BF16, "a type whose conversion is not here");
  return T == DType::BF16 ? from_bf16(bits) : from_f16(bits);
}

template <DType T>
MINUET_HD u16 to_16_bits(float value) {
  static_assert(T == DType::F16 || T == DType::BF16, "a type whose conversion is not here");
  return T == DType::BF16 ? to_bf16(value) : to_f16(value);
}

/// Converts two elements and packs them into one register, the first in the low half.
template <DType T>
MINUET_HD u32 to_16_bit_pair(float low, float high) {
#if defined(__CUDA_ARCH__)
  u32 pair;
  if constexpr (T == DType::BF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    static_assert(T == DType::F16, "a type whose conversion is not here");
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
