// This file computes sum += a * b on the tensor cores of one warp. `a` has 16 rows, `b` has 8 columns, both
// have 32 bytes along k, and the sums are fp32, or 32-bit integers for operands of 8-bit integers.
//
// A 32-bit word holds one tf32 element, two 16-bit elements or four 8-bit elements, with the lowest k in the
// lowest bits. With g = l / 4 and t = l % 4, lane l holds word t + 4 (i / 2) of row g + 8 (i % 2) as a[i],
// word t + 4 i of column g as b[i], and the sum of row g + 8 (i / 2) and column 2 t + i % 2 as sum[i].
#pragma once

#include "kernels_templates/core/convert.h"
#include "kernels_templates/shared/integer_functions.h"

namespace minuet {

constexpr i32 kMmaRows = 16, kMmaColumns = 8, kMmaWords = 8;  // kMmaWords counts 32-bit words along k.

/// Returns the number of elements along k that one product covers.
template <DType T>
MINUET_HD constexpr i32 mma_depth() {
  return kMmaWords * 4 / dtype_bytes(T);
}

#if !defined(__CUDA_ARCH__)
template <class Sum>
struct MmaLane {
  Sum* sum;
  const u32 *a, *b;
};

/// Unpacks the words of a row or column into elements. The 13 low bits of tf32 words are ignored.
template <DType T>
void mma_elements(const u32* words, float* elements) {
  for (i32 w = 0; w < kMmaWords; ++w) {
    if constexpr (T == DType::TF32) {
      elements[w] = float_of(words[w] & ~0x1fffu);
    } else {
      elements[2 * w] = from_16_bits<T>(static_cast<u16>(words[w] & 0xffffu));
      elements[2 * w + 1] = from_16_bits<T>(static_cast<u16>(words[w] >> 16));
    }
  }
}

/// Unpacks the words of a row or column into integers.
template <DType T>
void mma_integers(const u32* words, i32* elements) {
  for (i32 e = 0; e < kMmaWords * 4; ++e) elements[e] = integer_of<T>(words[e / 4] >> e % 4 * 8 & 0xffu);
}
/// Returns sum + a[0] * b[0] + a[1] * b[1] and so on modulo 2^32.
inline i32 add_integer_products(i32 sum, const i32* a, const i32* b) {
  u32 total = static_cast<u32>(sum);
  for (i32 e = 0; e < kMmaWords * 4; ++e) total += static_cast<u32>(a[e] * b[e]);
  return static_cast<i32>(total);
}

/// Unpacks the operands of a product of all lanes of a warp, on the host. `unpack` takes the words of a row
/// or column and the elements.
template <class Lane, class Element, i32 Depth, class UnpackA, class UnpackB>
void mma_operands(const Lane& lane, Element (&a)[kMmaRows][Depth], Element (&b)[kMmaColumns][Depth],
                  UnpackA unpack_a, UnpackB unpack_b) {
  u32 words[kMmaWords];
  for (i32 row = 0; row < kMmaRows; ++row) {
    for (i32 w = 0; w < kMmaWords; ++w) words[w] = lane(row % 8 * 4 + w % 4).a[w / 4 * 2 + row / 8];
    unpack_a(words, a[row]);
  }
  for (i32 column = 0; column < kMmaColumns; ++column) {
    for (i32 w = 0; w < kMmaWords; ++w) words[w] = lane(column * 4 + w % 4).b[w / 4];
    unpack_b(words, b[column]);
  }
}

/// Computes the product for all lanes of a warp, on the host. Products of two elements are exact in fp32 and
/// are added to the sum one by one in ascending k, each addition rounded to nearest. A device adds several at
/// once and truncates, so its last bits differ.
template <DType T>
void mma_of_warp(void* const* lanes) {
  using Lane = MmaLane<float>;
  const auto lane = [&](i32 l) -> const Lane& { return *static_cast<const Lane*>(lanes[l]); };
  constexpr i32 kDepth = mma_depth<T>();
  float a[kMmaRows][kDepth], b[kMmaColumns][kDepth];
  mma_operands(lane, a, b, mma_elements<T>, mma_elements<T>);
  for (i32 row = 0; row < kMmaRows; ++row) {
    for (i32 column = 0; column < kMmaColumns; ++column) {
      float& sum = lane(row % 8 * 4 + column / 2).sum[row / 8 * 2 + column % 2];
      sum = shim::add_products(sum, a[row], b[column], kDepth);
    }
  }
}

/// Does the same for integers, whose sums are exact in any order.
template <DType B>
void integer_mma_of_warp(void* const* lanes) {
  using Lane = MmaLane<i32>;
  const auto lane = [&](i32 l) -> const Lane& { return *static_cast<const Lane*>(lanes[l]); };
  constexpr i32 kDepth = kMmaWords * 4;
  i32 a[kMmaRows][kDepth], b[kMmaColumns][kDepth];
  mma_operands(lane, a, b, mma_integers<DType::S8>, mma_integers<B>);
  for (i32 row = 0; row < kMmaRows; ++row) {
    for (i32 column = 0; column < kMmaColumns; ++column) {
      i32& sum = lane(row % 8 * 4 + column / 2).sum[row / 8 * 2 + column % 2];
      sum = add_integer_products(sum, a[row], b[column]);
    }
  }
}
#endif

/// Adds the product a * b to `sum`. All 32 threads of the warp must call it together. T is F16, BF16 or TF32.
/// TF32 operands must already be rounded (core/convert.h), because the hardware truncates the low bits.
template <DType T>
MINUET_DEVICE void mma(float (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  static_assert(T != DType::F32, "tensor cores multiply no fp32");
  static_assert(!is_integer(T), "integers have integer sums");
#if defined(__CUDA_ARCH__)
#define MINUET_MMA(shape_and_types)                                               \
  asm volatile("mma.sync.aligned." shape_and_types                                \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (T == DType::F16) {
    MINUET_MMA("m16n8k16.row.col.f32.f16.f16.f32");
  } else if constexpr (T == DType::BF16) {
    MINUET_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  } else {
    static_assert(T == DType::TF32, "a type whose products are not here");
    MINUET_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  }
#undef MINUET_MMA
#else
  MmaLane<float> mine{sum, a, b};
  shim::warp_meet(~0u, true, mma_of_warp<T>, &mine);
#endif
}

/// Does the same for integers modulo 2^32. `a` has elements of S8, and `b` has elements of T, which is U8 or
/// S8.
template <DType T>
MINUET_DEVICE void mma(i32 (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  static_assert(is_integer(T), "integers have integer sums");
#if defined(__CUDA_ARCH__)
#define MINUET_MMA(types)                                                         \
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8." types                  \
               ".s32"                                                             \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (T == DType::U8) {
    MINUET_MMA("u8");
  } else {
    MINUET_MMA("s8");
  }
#undef MINUET_MMA
#else
  MmaLane<i32> mine{sum, a, b};
  shim::warp_meet(~0u, true, integer_mma_of_warp<T>, &mine);
#endif
}

/// Splits fp32 numbers into sums of two tf32 numbers. `high` is truncated instead of rounded, so that the
/// largest numbers stay finite.
template <i32 Count>
MINUET_HD void split_to_tf32(const u32 (&bits)[Count], u32 (&high)[Count], u32 (&low)[Count]) {
  MINUET_UNROLL
  for (i32 i = 0; i < Count; ++i) {
    high[i] = bits[i] & ~0x1fffu;
    low[i] = round_to_tf32(bits_of(float_of(bits[i]) - float_of(high[i])));
  }
}

}  // namespace minuet
