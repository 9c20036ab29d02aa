// Compiled once an instruction set (CMakeLists.txt). Nothing here may call an inline function that
// another file uses too: the linker keeps one copy, and it may be the one this machine cannot run. Those of
// shared/elements.h leave none, for they are always inlined.
#include "runtime/cpu/vector_kernels.h"

#include <Eigen/Core>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "kernels_templates/shared/elements.h"

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

void widen_f16_row(const u16* input, float* output, i64 count) {
  i64 i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(output + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(input + i))));
  }
#endif
  for (; i < count; ++i) output[i] = Element<DType::F16>::load(input[i]);
}

void narrow_f16_row(const float* input, u16* output, i64 count) {
  i64 i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(output + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(input + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < count; ++i) output[i] = Element<DType::F16>::store(input[i]);
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

/// Of the largest magnitude; NaN is larger than any number.
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

#if defined(__AVX512F__)
constexpr VectorKernels kKernels{"AVX-512", gemm,        widen, narrow,    all_finite,
                                 add,       scale_shift, relu,  leaky_relu};
#elif defined(__AVX2__)
constexpr VectorKernels kKernels{"AVX2", gemm, widen, narrow, all_finite, add, scale_shift, relu, leaky_relu};
#else
constexpr VectorKernels kKernels{"baseline", gemm,        widen, narrow,    all_finite,
                                 add,        scale_shift, relu,  leaky_relu};
#endif

}  // namespace

const VectorKernels& MINUET_JOIN(vector_kernels_, MINUET_VECTOR_SET)() { return kKernels; }

}  // namespace minuet
