// This file converts single elements between fp32 and their format in memory, on the host. The library, the
// CPU device, the command-line tool and the host versions of device code use it. Conversions round to
// nearest, with ties to even. Only the conversion to tf32 rounds ties away from zero, as cvt.rna does on a
// device. Overflow becomes infinity, subnormals are kept, and NaN stays NaN.
//
// The conversions use only integer operations, so that hosts which flush subnormals to zero get the same
// numbers. All functions are always inlined, because runtime/vector/vector_kernels.cc is compiled for several
// instruction sets, and code for different instruction sets must not share functions.
#pragma once

#include "kernels_templates/shared/dtypes.h"

namespace minuet {

/// Describes an element type. Stored is the type in memory. load() and store() convert from it to fp32 and
/// back. operand() returns the fp32 number that a GEMM multiplies. kLargest is the largest finite number. A
/// type without a specialisation, such as an integer type, does not compile.
template <DType T>
struct Element;

template <>
struct Element<DType::F32> {
  using Stored = float;
  static constexpr float kLargest = 0x1.fffffep127f;
  [[gnu::always_inline]] static float load(float stored) { return stored; }
  [[gnu::always_inline]] static float store(float value) { return value; }
  [[gnu::always_inline]] static float operand(float stored) { return stored; }
};

template <>
struct Element<DType::TF32> : Element<DType::F32> {
  /// Keeps 10 of the 23 bits of the fraction, after adding half of the last kept bit to the magnitude.
  [[gnu::always_inline]] static float operand(float stored) {
    const u32 bits = __builtin_bit_cast(u32, stored);
    const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
    return finite ? __builtin_bit_cast(float, (bits + 0x1000u) & 0xffffe000u) : stored;
  }
};

template <>
struct Element<DType::F16> {
  using Stored = u16;
  static constexpr float kLargest = 65504.0f;
  /// These are the fp32 bits of 65520, the least number that overflows.
  static constexpr u32 kOverflow = overflow_bits(DType::F16);
  [[gnu::always_inline]] static float load(u16 stored) {
    const u32 sign = static_cast<u32>(stored & 0x8000u) << 16;
    const u32 exponent = (stored >> 10) & 31u, fraction = stored & 0x3ffu;
    u32 magnitude = (exponent + 112) << 23 | fraction << 13;
    if (exponent == 31) {
      magnitude = 0x7f800000u | fraction << 13;
    } else if (exponent == 0 && fraction == 0) {
      magnitude = 0;
    } else if (exponent == 0) {
      const i32 shift = __builtin_clz(fraction) - 21;  // The shift brings the leading one to bit 10.
      magnitude = static_cast<u32>(113 - shift) << 23 | ((fraction << shift) & 0x3ffu) << 13;
    }
    return __builtin_bit_cast(float, sign | magnitude);
  }
  [[gnu::always_inline]] static u16 store(float value) {
    const u32 bits = __builtin_bit_cast(u32, value);
    const u32 magnitude = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
    if (magnitude > 0x7f800000u) return static_cast<u16>(sign | 0x7e00u);
    if (magnitude >= kOverflow) return static_cast<u16>(sign | 0x7c00u);
    if (magnitude < 0x33000001u) return static_cast<u16>(sign);  // Numbers up to 2^-25 round to 0.
    // The shift moves the last place of the fp16 number to bit 0. The bits that are shifted out decide the
    // rounding.
    const i32 exponent = static_cast<i32>(magnitude >> 23);
    const bool normal = exponent >= 113;
    const i32 shift = normal ? 13 : 126 - exponent;
    const u32 significand = normal ? magnitude - (112u << 23) : (magnitude & 0x7fffffu) | 0x800000u;
    const u32 odd = (significand >> shift) & 1u;
    return static_cast<u16>(sign | ((significand + (1u << (shift - 1)) - 1 + odd) >> shift));
  }
  [[gnu::always_inline]] static float operand(u16 stored) { return load(stored); }
};

template <>
struct Element<DType::BF16> {
  using Stored = u16;
  static constexpr float kLargest = 0x1.fep127f;
  [[gnu::always_inline]] static float load(u16 stored) {
    return __builtin_bit_cast(float, static_cast<u32>(stored) << 16);
  }
  [[gnu::always_inline]] static u16 store(float value) {
    const u32 bits = __builtin_bit_cast(u32, value);
    const u32 rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return static_cast<u16>((nan ? bits | 0x400000u : rounded) >> 16);
  }
  [[gnu::always_inline]] static float operand(u16 stored) { return load(stored); }
};

/// Calls body.template operator()<T>() with T = `type`, which is known only at run time and must be a
/// floating-point type.
template <class Body>
constexpr decltype(auto) with_dtype(DType type, const Body& body) {
  switch (type) {
#define MINUET_DTYPE_ROW(type, ...) \
  case DType::type:                 \
    return body.template operator()<DType::type>();
    MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
    case DType::U8:
    case DType::S8:
      break;
  }
  __builtin_unreachable();
}

#define MINUET_DTYPE_ROW(type, name, storage, bytes, ...)                                \
  static_assert(sizeof(Element<DType::type>::Stored) == bytes, "of the table of types"); \
  static_assert(sizeof(Element<DType::storage>::Stored) == bytes &&                      \
                storage_type(DType::storage) == DType::storage);
MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW

}  // namespace minuet
