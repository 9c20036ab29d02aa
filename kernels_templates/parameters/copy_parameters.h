// The kernel copy_parameters sets target[i] = source[i] for the elements of several parameters, converted
// from the element type of the caller's array to the type in which the kernels of convolutions read them.
//
// Each thread handles kCopyPiece consecutive elements of one target at a time.
#pragma once

#include "kernels_templates/core/vector.h"
#include "kernels_templates/parameters/job_of_item.h"

namespace minuet {

/// Returns the place of element `index` of the target in the source, in elements.
MINUET_HD i64 copy_source(const ParameterCopy& copy, i64 index) {
  i64 place = 0;
  for (i32 axis = copy.rank - 1; axis > 0; --axis) {
    const i64 next = quotient(index, copy.shape[axis]);
    place += (index - next * copy.shape[axis]) * copy.strides[axis];
    index = next;
  }
  return place + index * copy.strides[0];
}

MINUET_HD float load_element(ArrayElement element, const void* source, i64 index) {
  switch (element) {
    case ArrayElement::F32:
      return read_only(static_cast<const float*>(source) + index);
    case ArrayElement::F16:
      return from_f16(read_only(static_cast<const u16*>(source) + index));
    case ArrayElement::BF16:
      return from_bf16(read_only(static_cast<const u16*>(source) + index));
    case ArrayElement::F64:
      return static_cast<float>(read_only(static_cast<const double*>(source) + index));
  }
  return 0;
}

MINUET_HD bool is_aligned_vector(const void* address) { return (reinterpret_cast<u64>(address) & 15u) == 0; }

/// Loads kCopyPiece consecutive elements of the source from element `first` on.
MINUET_HD void load_piece(const ParameterCopy& copy, i64 first, float* values) {
  const bool is_narrow = copy.element == ArrayElement::F16 || copy.element == ArrayElement::BF16;
  const char* const address = static_cast<const char*>(copy.source) + first * (is_narrow ? i64{2} : i64{4});
  if (copy.element == ArrayElement::F64 || !is_aligned_vector(address)) {
    MINUET_UNROLL
    for (i32 e = 0; e < kCopyPiece; ++e) values[e] = load_element(copy.element, copy.source, first + e);
    return;
  }
  if (!is_narrow) {
    MINUET_UNROLL
    for (i32 half = 0; half < 2; ++half) {
      const Vector<16> vector = load_vector<16>(address, half * 16);
      MINUET_UNROLL
      for (i32 w = 0; w < 4; ++w) values[half * 4 + w] = float_of(vector.words[w]);
    }
    return;
  }
  const Vector<16> vector = load_vector<16>(address, 0);
  MINUET_UNROLL
  for (i32 w = 0; w < 4; ++w) {
    if (copy.element == ArrayElement::F16) {
      from_16_bit_pair<DType::F16>(vector.words[w], values + 2 * w);
    } else {
      from_16_bit_pair<DType::BF16>(vector.words[w], values + 2 * w);
    }
  }
}

/// Rounds a number to the type. The result is fp32 and holds the rounded number exactly.
MINUET_HD float round_element(DType dtype, float value) {
  switch (dtype) {
    case DType::F32:
      return value;
    case DType::TF32:
      return float_of(round_to_tf32(bits_of(value)));
    case DType::F16:
      return from_f16(to_f16(value));
    case DType::BF16:
      return from_bf16(to_bf16(value));
    case DType::U8:
    case DType::S8:
      break;  // Integers have a scale, so the host makes the image of 8-bit weights.
  }
  return value;
}

/// Stores `count` numbers, which the storage type holds exactly, from element `index` of the target on.
MINUET_HD void store_piece(DType storage, void* target, i64 index, i32 count, const float* values) {
  if (dtype_bytes(storage) == 4) {
    float* const address = static_cast<float*>(target) + index;
    if (count == kCopyPiece && is_aligned_vector(address)) {
      MINUET_UNROLL
      for (i32 half = 0; half < 2; ++half) {
        Vector<16> vector;
        MINUET_UNROLL
        for (i32 w = 0; w < 4; ++w) vector.words[w] = bits_of(values[half * 4 + w]);
        store_vector(address, half * 16, vector);
      }
      return;
    }
    MINUET_UNROLL
    for (i32 e = 0; e < kCopyPiece; ++e) {
      if (e < count) address[e] = values[e];
    }
    return;
  }
  u16* const address = static_cast<u16*>(target) + index;
  u16 bits[kCopyPiece] = {};
  MINUET_UNROLL
  for (i32 e = 0; e < kCopyPiece; ++e) {
    if (e < count) bits[e] = storage == DType::F16 ? to_f16(values[e]) : to_bf16(values[e]);
  }
  if (count == kCopyPiece && is_aligned_vector(address)) {
    Vector<16> vector;
    MINUET_UNROLL
    for (i32 w = 0; w < 4; ++w) {
      vector.words[w] = static_cast<u32>(bits[2 * w]) | static_cast<u32>(bits[2 * w + 1]) << 16;
    }
    store_vector(address, 0, vector);
    return;
  }
  MINUET_UNROLL
  for (i32 e = 0; e < kCopyPiece; ++e) {
    if (e < count) address[e] = bits[e];
  }
}

/// Converts and stores the elements of piece number `piece`, which are kCopyPiece elements or the rest of the
/// parameter.
MINUET_HD void copy_piece(const ParameterCopy& copy, i64 piece) {
  const i64 first = piece * kCopyPiece, left = copy.elements - first;
  const i32 count = left < kCopyPiece ? static_cast<i32>(left) : kCopyPiece;
  const i32 last = copy.rank - 1;
  float values[kCopyPiece] = {};
  // A piece is consecutive in the source if it lies within one row of the last axis.
  if (count == kCopyPiece && copy.strides[last] == 1 && copy.shape[last] % kCopyPiece == 0) {
    load_piece(copy, copy_source(copy, first), values);
  } else {
    MINUET_UNROLL
    for (i32 e = 0; e < kCopyPiece; ++e) {
      if (e < count) values[e] = load_element(copy.element, copy.source, copy_source(copy, first + e));
    }
  }
  if (copy.master != nullptr) store_piece(DType::F32, copy.master, first, count, values);
  if (copy.dtype == DType::TF32 || storage_type(copy.dtype) != copy.storage) {
    MINUET_UNROLL
    for (i32 e = 0; e < kCopyPiece; ++e) values[e] = round_element(copy.dtype, values[e]);
  }
  store_piece(copy.storage, copy.target, first, count, values);
}

template <CopyParametersSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void copy_parameters(MINUET_PARAMS(CopyParametersParams) p) {
  for_each_item<S.threads>(p, [](const ParameterCopy& job, i64 piece) { copy_piece(job, piece); });
}

}  // namespace minuet
