// This file is compiled once per instruction set (CMakeLists.txt). It must not call inline functions that
// other files use too, because the linker keeps one copy of each, possibly one that this machine cannot run.
// The functions of shared/elements.h and shared/integer_functions.h are safe because they are always inlined.
#include "runtime/vector/vector_kernels.h"

#include <Eigen/Core>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "kernels_templates/shared/elements.h"
#include "kernels_templates/shared/integer_functions.h"

#define MINUET_JOIN_INNER(a, b) a##b
#define MINUET_JOIN(a, b) MINUET_JOIN_INNER(a, b)

namespace minuet {
const VectorKernels& MINUET_JOIN(vector_kernels_, MINUET_VECTOR_SET)();

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;

void gemm(const float* a, i64 lda, const float* b, float* c, i64 rows, i64 k, i64 n) {
  Eigen::Map<const Matrix, 0, Stride> left(a, rows, k, Stride(lda));
  Eigen::Map<const Matrix> right(b, k, n);
  Eigen::Map<Matrix> product(c, rows, n);
  product.noalias() = left * right;
}

void widen_f16_each(const u16* input, float* output, i64 count) {
  for (i64 i = 0; i < count; ++i) output[i] = Element<DType::F16>::load(input[i]);
}

void narrow_f16_each(const float* input, u16* output, i64 count) {
  for (i64 i = 0; i < count; ++i) output[i] = Element<DType::F16>::store(input[i]);
}

#ifdef __F16C__
// The hardware's conversions keep a NaN's bits or set one of them. Groups of eight numbers that contain a NaN
// are therefore converted one by one, so that every instruction set stores the same bits.
[[gnu::always_inline]] inline bool has_nan(__m256 values) {
  return _mm256_movemask_ps(_mm256_cmp_ps(values, values, _CMP_UNORD_Q)) != 0;
}
#endif

void widen_f16_row(const u16* input, float* output, i64 count) {
  i64 i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m256 wide = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(input + i)));
    if (has_nan(wide)) [[unlikely]] {
      widen_f16_each(input + i, output + i, 8);
    } else {
      _mm256_storeu_ps(output + i, wide);
    }
  }
#endif
  widen_f16_each(input + i, output + i, count - i);
}

void narrow_f16_row(const float* input, u16* output, i64 count) {
  i64 i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m256 wide = _mm256_loadu_ps(input + i);
    if (has_nan(wide)) [[unlikely]] {
      narrow_f16_each(input + i, output + i, 8);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(output + i),
                       _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
    }
  }
#endif
  narrow_f16_each(input + i, output + i, count - i);
}

void widen(DType type, const void* input, float* output, i64 count) {
  with_dtype(type, [&]<DType T>() {
    const auto* stored = static_cast<const typename Element<T>::Stored*>(input);
    if constexpr (T == DType::F16) {
      widen_f16_row(stored, output, count);
    } else {
      for (i64 i = 0; i < count; ++i) output[i] = Element<T>::operand(stored[i]);
    }
  });
}

/// Returns the largest magnitude of the values as the bits of a float. The magnitude of a NaN counts as
/// larger than that of any number.
u32 largest_bits(const float* values, i64 count) {
  u32 largest = 0;
  for (i64 i = 0; i < count; ++i) {
    const u32 magnitude = __builtin_bit_cast(u32, values[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

bool narrow(DType type, const float* input, void* output, i64 count) {
  return with_dtype(type, [&]<DType T>() {
    auto* stored = static_cast<typename Element<T>::Stored*>(output);
    if constexpr (T == DType::F16) {
      narrow_f16_row(input, stored, count);
    } else {
      for (i64 i = 0; i < count; ++i) stored[i] = Element<T>::store(input[i]);
    }
    constexpr u32 kOverflow = overflow_bits(T);
    return largest_bits(input, count) < kOverflow;
  });
}

template <DType T>
[[gnu::always_inline]] inline float rounded_to(float value) {
  return Element<T>::operand(Element<T>::store(value));
}

/// Rounds each value, and returns what largest_bits() returns for the values before rounding.
template <DType T>
u32 round_each(const float* __restrict values, float* __restrict rounded, i64 count) {
  u32 largest = 0;
  for (i64 i = 0; i < count; ++i) {
    const u32 magnitude = __builtin_bit_cast(u32, values[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
    rounded[i] = rounded_to<T>(values[i]);
  }
  return largest;
}

template <DType T>
u32 round_in_place(float* values, i64 count) {
  u32 largest = 0;
  for (i64 i = 0; i < count; ++i) {
    const u32 magnitude = __builtin_bit_cast(u32, values[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
    values[i] = rounded_to<T>(values[i]);
  }
  return largest;
}

#ifdef __F16C__
/// Rounds with the hardware's conversions, 16 or 8 numbers at a time, and returns how many numbers it
/// rounded. NaNs may keep some of their bits.
i64 round_f16_vectors(const float* values, float* rounded, i64 count, u32& largest) {
  i64 i = 0;
#ifdef __AVX512F__
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i most = _mm512_setzero_si512();
  for (; i + 16 <= count; i += 16) {
    const __m512 wide = _mm512_loadu_ps(values + i);
    most = _mm512_max_epu32(most, _mm512_and_si512(_mm512_castps_si512(wide), magnitude));
    _mm512_storeu_ps(rounded + i, _mm512_cvtph_ps(_mm512_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT)));
  }
  largest = _mm512_reduce_max_epu32(most);
#else
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i most = _mm256_setzero_si256();
  for (; i + 8 <= count; i += 8) {
    const __m256 wide = _mm256_loadu_ps(values + i);
    most = _mm256_max_epu32(most, _mm256_and_si256(_mm256_castps_si256(wide), magnitude));
    _mm256_storeu_ps(rounded + i, _mm256_cvtph_ps(_mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT)));
  }
  alignas(32) u32 lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), most);
  for (const u32 lane : lanes) largest = lane > largest ? lane : largest;
#endif
  return i;
}
#endif

u32 round_f16_row(const float* values, float* rounded, i64 count) {
  u32 largest = 0;
  i64 done = 0;
#ifdef __F16C__
  done = round_f16_vectors(values, rounded, count, largest);
  constexpr u32 kInfinity = 0x7f800000u;
  // Rounding again in software replaces each NaN by one that depends only on its sign, so that every
  // instruction set has the same results. It leaves all other numbers unchanged.
  if (largest > kInfinity) round_in_place<DType::F16>(rounded, done);
#endif
  for (i64 i = done; i < count; ++i) {
    const u32 magnitude = __builtin_bit_cast(u32, values[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
    rounded[i] = rounded_to<DType::F16>(values[i]);
  }
  return largest;
}

bool round(DType type, const float* values, float* rounded, i64 count) {
  return with_dtype(type, [&]<DType T>() {
    // Magnitudes from kOverflow on round to infinity. The value for TF32 is not overflow_bits(TF32), because
    // TF32 is stored as fp32 and its ties are rounded away from zero.
    constexpr u32 kOverflow = T == DType::TF32 ? 0x7f7ff000u : overflow_bits(T);
    if constexpr (T == DType::F16) {
      return round_f16_row(values, rounded, count) < kOverflow;
    } else if (values == rounded) {
      return (T == DType::F32 ? largest_bits(values, count) : round_in_place<T>(rounded, count)) < kOverflow;
    } else {
      return round_each<T>(values, rounded, count) < kOverflow;
    }
  });
}

bool all_finite(const float* values, i64 count) {
  constexpr u32 kOverflow = overflow_bits(DType::F32);
  return largest_bits(values, count) < kOverflow;
}

void add(const float* values, float* sum, i64 count) {
  for (i64 i = 0; i < count; ++i) sum[i] += values[i];
}

void scale_shift(const float* scale, const float* shift, float* sum, i64 count) {
  for (i64 i = 0; i < count; ++i) sum[i] = sum[i] * scale[i] + shift[i];
}

void relu(float* values, i64 count) {
  for (i64 i = 0; i < count; ++i) values[i] = values[i] < 0 ? 0 : values[i];
}

void leaky_relu(float slope, float* values, i64 count) {
  for (i64 i = 0; i < count; ++i) values[i] = values[i] < 0 ? values[i] * slope : values[i];
}

template <class Input>
void add_integer_row(const Input* input, const signed char* weights, i32* sums, i64 in, i64 out) {
  i64 c = 0;
  // Four inputs at a time, so that a sum is loaded and stored once for them. Unsigned sums may wrap around.
  for (; c + 4 <= in; c += 4) {
    const signed char* const w = weights + c * out;
    // The plus signs convert to i32.
    const i32 a = +input[c], b = +input[c + 1], d = +input[c + 2], e = +input[c + 3];
    if ((a | b | d | e) == 0) continue;
    for (i64 o = 0; o < out; ++o) {
      const i32 products = a * w[o] + b * w[out + o] + d * w[2 * out + o] + e * w[3 * out + o];
      sums[o] = static_cast<i32>(static_cast<u32>(sums[o]) + static_cast<u32>(products));
    }
  }
  for (; c < in; ++c) {
    const i32 a = +input[c];
    for (i64 o = 0; o < out; ++o)
      sums[o] = static_cast<i32>(static_cast<u32>(sums[o]) + static_cast<u32>(a * weights[c * out + o]));
  }
}

void add_integers(DType type, const void* input, const signed char* weights, i32* sums, i64 in, i64 out) {
  if (type == DType::U8) {
    add_integer_row(static_cast<const unsigned char*>(input), weights, sums, in, out);
  } else {
    add_integer_row(static_cast<const signed char*>(input), weights, sums, in, out);
  }
}

template <class Residual>
void finish_row_of_integers(const i32* __restrict sums, const IntegerStart& start,
                            const float* __restrict scale, float* __restrict values, i64 count) {
  const auto* const residual = static_cast<const Residual*>(start.residual);
  const float *const shift = start.shift, *const factor = start.residual_factor;
  for (i64 i = 0; i < count; ++i) {
    const float first = fused_multiply_add(static_cast<float>(residual[i]), factor[i], shift[i]);
    values[i] = nearest_float(wrapping_sum(sums[i], nearest_integer(first))) * scale[i];
  }
}

void finish_integers(const i32* sums, const IntegerStart& start, const float* scale, float* values,
                     i64 count) {
  if (start.residual != nullptr && start.residual_type == DType::U8) {
    finish_row_of_integers<unsigned char>(sums, start, scale, values, count);
  } else if (start.residual != nullptr) {
    finish_row_of_integers<signed char>(sums, start, scale, values, count);
  } else {
    const float* const shift = start.shift;
    for (i64 i = 0; i < count; ++i)
      values[i] = nearest_float(wrapping_sum(sums[i], nearest_integer(shift[i]))) * scale[i];
  }
}

template <DType T, class Stored>
void store_row_of_integers(const float* __restrict values, float factor, Stored* __restrict row, i64 count) {
  for (i64 i = 0; i < count; ++i) row[i] = static_cast<Stored>(to_integer<T>(values[i] * factor));
}

void store_integers(DType type, const float* values, float factor, void* row, i64 count) {
  if (type == DType::U8) {
    store_row_of_integers<DType::U8>(values, factor, static_cast<unsigned char*>(row), count);
  } else {
    store_row_of_integers<DType::S8>(values, factor, static_cast<signed char*>(row), count);
  }
}

#if defined(__AVX512F__)
constexpr const char* kName = "AVX-512";
#elif defined(__AVX2__)
constexpr const char* kName = "AVX2";
#else
constexpr const char* kName = "baseline";
#endif
constexpr VectorKernels kKernels{kName,         gemm,        widen, narrow,     round,        all_finite,
                                 add,           scale_shift, relu,  leaky_relu, add_integers, finish_integers,
                                 store_integers};

}  // namespace

const VectorKernels& MINUET_JOIN(vector_kernels_, MINUET_VECTOR_SET)() { return kKernels; }

}  // namespace minuet
