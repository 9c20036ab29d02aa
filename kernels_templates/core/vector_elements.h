// This file moves single elements between vectors, for kernels that copy features without changing them.
#pragma once

#include "kernels_templates/core/vector.h"

namespace minuet {

/// Returns the bits of element i of a vector of elements of `Element` bytes, which are 1, 2 or 4.
template <i32 Element, i32 Bytes>
MINUET_HD u32 element_bits(const Vector<Bytes>& vector, i32 i) {
  static_assert(Element == 1 || Element == 2 || Element == 4, "sizes of an element");
  constexpr i32 kPerWord = static_cast<i32>(sizeof(typename Vector<Bytes>::Word)) / Element;
  if constexpr (kPerWord == 1) {
    return vector.words[i];
  } else {
    return vector.words[i / kPerWord] >> i % kPerWord * 8 * Element & ((1u << 8 * Element) - 1);
  }
}

/// Sets element i of a vector, whose bits must be 0 before.
template <i32 Element, i32 Bytes>
MINUET_HD void set_element(Vector<Bytes>& vector, i32 i, u32 bits) {
  using Word = typename Vector<Bytes>::Word;
  constexpr i32 kPerWord = static_cast<i32>(sizeof(Word)) / Element;
  if constexpr (kPerWord == 1) {
    vector.words[i] = static_cast<Word>(bits);
  } else {
    vector.words[i / kPerWord] |= static_cast<Word>(bits << i % kPerWord * 8 * Element);
  }
}

/// Returns true if an element of the vector is infinite or NaN, which integers never are.
template <DType T, i32 Bytes>
MINUET_HD bool has_overflow(const Vector<Bytes>& vector) {
  if constexpr (is_integer(T)) return false;
  constexpr u32 kExponent = storage_type(T) == DType::F32 ? 0x7f800000u : T == DType::F16 ? 0x7c00u : 0x7f80u;
  bool found = false;
  MINUET_UNROLL
  for (i32 i = 0; i < Bytes / dtype_bytes(T); ++i) {
    found = found || (element_bits<dtype_bytes(T)>(vector, i) & kExponent) == kExponent;
  }
  return found;
}

/// Loads elements as load_vector() does. If `is_aligned` is false, the address may be a multiple of an
/// element's size only.
template <i32 Element, i32 Bytes>
MINUET_HD Vector<Bytes> load_elements(bool is_aligned, const void* base, i64 byte) {
  if (is_aligned) return load_vector<Bytes>(base, byte);
  Vector<Bytes> vector = zero_vector<Bytes>();
  MINUET_UNROLL
  for (i32 i = 0; i < Bytes / Element; ++i) {
    const Vector<Element> element = load_vector<Element>(base, byte + i * Element);
    set_element<Element>(vector, i, element.words[0]);
  }
  return vector;
}

/// Stores elements as store_vector() does. If `is_aligned` is false, the address may be a multiple of an
/// element's size only.
template <i32 Element, i32 Bytes>
MINUET_HD void store_elements(bool is_aligned, void* base, i64 byte, const Vector<Bytes>& vector) {
  if (is_aligned) return store_vector(base, byte, vector);
  MINUET_UNROLL
  for (i32 i = 0; i < Bytes / Element; ++i) {
    Vector<Element> element = zero_vector<Element>();
    set_element<Element>(element, 0, element_bits<Element>(vector, i));
    store_vector(base, byte + i * Element, element);
  }
}

}  // namespace minuet
