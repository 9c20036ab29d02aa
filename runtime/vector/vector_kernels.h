// The loops that want wide registers, as a table of functions: one table an instruction set.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

struct VectorKernels {
  const char* name;  // "AVX-512", "AVX2", "baseline"
  /// c[rows, n] = a[rows, k] * b[k, n], fp32, row-major; a's rows are lda apart, the others dense.
  void (*gemm)(const float* a, i64 lda, const float* b, float* c, i64 rows, i64 k, i64 n);
  /// Storage -> fp32. TF32 rounds to the nearest tf32, ties away from zero.
  void (*widen)(DType type, const void* input, float* output, i64 count);
  /// fp32 -> storage, to the nearest, ties to even. Whether all are finite there.
  bool (*narrow)(DType type, const float* input, void* output, i64 count);
  /// To what a GEMM of the type multiplies, as narrow and then widen do it. Whether all are finite there.
  /// `rounded` is `values`, or lies apart.
  bool (*round)(DType type, const float* values, float* rounded, i64 count);
  /// Whether all are, as fp32.
  bool (*all_finite)(const float* values, i64 count);
  /// sum += values
  void (*add)(const float* values, float* sum, i64 count);
  /// sum = sum * scale + shift
  void (*scale_shift)(const float* scale, const float* shift, float* sum, i64 count);
  /// Negative -> 0; NaN stays.
  void (*relu)(float* values, i64 count);
  /// Negative -> slope times as much; NaN stays.
  void (*leaky_relu)(float slope, float* values, i64 count);
};

enum class VectorSet : i32 { Best, Baseline, Avx2, Avx512 };

/// The table of a set, or of the widest that this machine has; null where the machine lacks it.
const VectorKernels* vector_kernels(VectorSet set);

}  // namespace minuet
