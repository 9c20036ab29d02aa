// Compiled once an instruction set (CMakeLists.txt). Nothing here may call an inline function that
// another file uses too: the linker keeps one copy, and it may be the one this machine cannot run.
#include "runtime/cpu/vector_kernels.h"

#include <Eigen/Core>

#ifdef __F16C__
#include <immintrin.h>
#endif

#define MINUET_JOIN_INNER(a, b) a##b
#define MINUET_JOIN(a, b) MINUET_JOIN_INNER(a, b)

namespace minuet {
const VectorKernels& MINUET_JOIN(vector_kernels_, MINUET_VECTOR_SET)();

namespace {

using u16 = unsigned short;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;

u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }

void gemm(const float* a, i64 lda, const float* b, float* c, i64 rows, i64 k, i64 n) {
  Eigen::Map<const Matrix, 0, Stride> left(a, rows, k, Stride(lda));
  Eigen::Map<const Matrix> right(b, k, n);
  Eigen::Map<Matrix> product(c, rows, n);
  product.noalias() = left * right;
}

// Integers only, so that a host that flushes subnormals to zero gets the same numbers.
float widen_f16(u16 half) {
  const u32 sign = static_cast<u32>(half & 0x8000u) << 16;
  const u32 exponent = (half >> 10) & 31u, fraction = half & 0x3ffu;
  if (exponent == 31) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  if (fraction == 0) return float_of(sign);
  const i32 shift = __builtin_clz(fraction) - 21;  // brings the leading one to bit 10
  return float_of(sign | static_cast<u32>(113 - shift) << 23 | ((fraction << shift) & 0x3ffu) << 13);
}

u16 narrow_f16(float value) {
  const u32 bits = bits_of(value), magnitude = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
  if (magnitude > 0x7f800000u) return static_cast<u16>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<u16>(sign | 0x7c00u);  // 65520 and more
  if (magnitude < 0x33000001u) return static_cast<u16>(sign);             // 2^-25 and less
  // The significand shifted down to the half's last place; the cut-off bits decide the rounding.
  const i32 exponent = static_cast<i32>(magnitude >> 23);
  const bool normal = exponent >= 113;
  const i32 shift = normal ? 13 : 126 - exponent;
  const u32 significand = normal ? magnitude - (112u << 23) : (magnitude & 0x7fffffu) | 0x800000u;
  const u32 odd = (significand >> shift) & 1u;
  return static_cast<u16>(sign | ((significand + (1u << (shift - 1)) - 1 + odd) >> shift));
}

u16 narrow_bf16(float value) {
  const u32 bits = bits_of(value);
  const u32 rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<u16>((nan ? bits | 0x400000u : rounded) >> 16);
}

float round_tf32(float value) {
  const u32 bits = bits_of(value);
  const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
  return finite ? float_of((bits + 0x1000u) & 0xffffe000u) : value;
}

void widen_f16_row(const u16* input, float* output, i64 count) {
  i64 i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(output + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(input + i))));
  }
#endif
  for (; i < count; ++i) output[i] = widen_f16(input[i]);
}

void narrow_f16_row(const float* input, u16* output, i64 count) {
  i64 i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(output + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(input + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < count; ++i) output[i] = narrow_f16(input[i]);
}

void widen(DType type, const void* input, float* output, i64 count) {
  const auto* halves = static_cast<const u16*>(input);
  const auto* floats = static_cast<const float*>(input);
  switch (type) {
    case DType::F32:
      __builtin_memcpy(output, input, static_cast<u64>(count) * 4);
      break;
    case DType::TF32:
      for (i64 i = 0; i < count; ++i) output[i] = round_tf32(floats[i]);
      break;
    case DType::F16:
      widen_f16_row(halves, output, count);
      break;
    case DType::BF16:
      for (i64 i = 0; i < count; ++i) output[i] = float_of(static_cast<u32>(halves[i]) << 16);
      break;
  }
}

void narrow(DType type, const float* input, void* output, i64 count) {
  auto* halves = static_cast<u16*>(output);
  switch (type) {
    case DType::F32:
    case DType::TF32:
      __builtin_memcpy(output, input, static_cast<u64>(count) * 4);
      break;
    case DType::F16:
      narrow_f16_row(input, halves, count);
      break;
    case DType::BF16:
      for (i64 i = 0; i < count; ++i) halves[i] = narrow_bf16(input[i]);
      break;
  }
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

#if defined(__AVX512F__)
constexpr VectorKernels kKernels{"AVX-512", gemm, widen, narrow, add, scale_shift, relu};
#elif defined(__AVX2__)
constexpr VectorKernels kKernels{"AVX2", gemm, widen, narrow, add, scale_shift, relu};
#else
constexpr VectorKernels kKernels{"baseline", gemm, widen, narrow, add, scale_shift, relu};
#endif

}  // namespace

const VectorKernels& MINUET_JOIN(vector_kernels_, MINUET_VECTOR_SET)() { return kKernels; }

}  // namespace minuet
