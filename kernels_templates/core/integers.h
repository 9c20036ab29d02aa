// This file converts vectors of features, whose elements may be 8-bit integers, to fp32 and back.
#pragma once

#include "kernels_templates/core/vector_elements.h"
#include "kernels_templates/shared/integer_functions.h"

namespace minuet {

/// Converts the elements of a vector of type T, which may be an integer type, to fp32.
template <DType T, i32 Bytes>
MINUET_HD void to_numbers(const Vector<Bytes>& vector, float* values) {
  if constexpr (is_integer(T)) {
    MINUET_UNROLL
    for (i32 i = 0; i < Bytes; ++i) values[i] = nearest_float(integer_of<T>(element_bits<1>(vector, i)));
  } else {
    to_floats<T>(vector, values);
  }
}

/// Returns the word that holds the integers nearest to four numbers, limited to the range of the type T.
template <DType T>
MINUET_HD u32 integer_word(const float* values) {
#if defined(__CUDA_ARCH__)
  // One instruction limits and packs two integers, to -128 to 127 for S8.
  i32 integers[4];
  MINUET_UNROLL
  for (i32 i = 0; i < 4; ++i) integers[i] = nearest_integer(values[i]);
  u32 high, word;
  if constexpr (T == DType::U8) {
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(integers[3]), "r"(integers[2]));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;"
        : "=r"(word)
        : "r"(integers[1]), "r"(integers[0]), "r"(high));
  } else {
    constexpr i32 kLeast = smallest_integer(T);
    MINUET_UNROLL
    for (i32 i = 0; i < 4; ++i) integers[i] = integers[i] < kLeast ? kLeast : integers[i];
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(integers[3]), "r"(integers[2]));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
        : "=r"(word)
        : "r"(integers[1]), "r"(integers[0]), "r"(high));
  }
  return word;
#else
  u32 word = 0;
  for (i32 i = 0; i < 4; ++i) word |= (static_cast<u32>(to_integer<T>(values[i])) & 0xffu) << i * 8;
  return word;
#endif
}

/// Converts fp32 numbers to a vector of elements of type T. For an integer type, each number is rounded and
/// limited to the range of the type.
template <DType T, i32 Bytes>
MINUET_HD Vector<Bytes> from_numbers(const float* values) {
  if constexpr (is_integer(T) && Bytes >= 4) {
    Vector<Bytes> vector;
    MINUET_UNROLL
    for (i32 w = 0; w < Bytes / 4; ++w) vector.words[w] = integer_word<T>(values + w * 4);
    return vector;
  } else if constexpr (is_integer(T)) {
    using Word = typename Vector<Bytes>::Word;
    u32 word = 0;
    MINUET_UNROLL
    for (i32 i = 0; i < Bytes; ++i) word |= (static_cast<u32>(to_integer<T>(values[i])) & 0xffu) << i * 8;
    return {{static_cast<Word>(word)}};
  } else {
    return from_floats<T, Bytes>(values);
  }
}

}  // namespace minuet
