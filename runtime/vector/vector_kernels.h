// Declares loops that benefit from wide vector registers, as one table of functions per instruction set.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Says where the sums of a row of a convolution with 8-bit inputs start.
struct IntegerStart {
  const float* shift;
  DType residual_type;   // Is U8 or S8.
  const void* residual;  // Points to a row of that type. Null means that there is no residual.
  const float* residual_factor;
};

struct VectorKernels {
  const char* name;  // Holds "AVX-512", "AVX2" or "baseline".
  /// Computes c[rows, n] = a[rows, k] * b[k, n] in fp32. The matrices are row-major. Rows of a are lda
  /// elements apart; b and c are dense.
  void (*gemm)(const float* a, i64 lda, const float* b, float* c, i64 rows, i64 k, i64 n);
  /// Converts from the storage format of the type to fp32. If the type is TF32, each number is also rounded
  /// to the nearest tf32 number, with ties away from zero.
  void (*widen)(DType type, const void* input, float* output, i64 count);
  /// Converts from fp32 to the storage format of the type. Each number is rounded to the nearest number of
  /// that format, with ties to even. Returns true if all results are finite.
  bool (*narrow)(DType type, const float* input, void* output, i64 count);
  /// Rounds fp32 numbers to those that a GEMM of the type multiplies, as narrow() followed by widen() does.
  /// Returns true if all results are finite. `rounded` must equal `values` or not overlap it.
  bool (*round)(DType type, const float* values, float* rounded, i64 count);
  /// Returns true if all values are finite in fp32.
  bool (*all_finite)(const float* values, i64 count);
  /// Adds each value to the sum at the same index.
  void (*add)(const float* values, float* sum, i64 count);
  /// Replaces each sum by sum * scale + shift, with the scale and the shift at the same index.
  void (*scale_shift)(const float* scale, const float* shift, float* sum, i64 count);
  /// Sets negative values to 0, and keeps NaN.
  void (*relu)(float* values, i64 count);
  /// Multiplies negative values by `slope`, and keeps NaN.
  void (*leaky_relu)(float slope, float* values, i64 count);
  /// Adds the product of a row `input` of `in` elements of U8 or S8 and of weights [in, out] to `sums`.
  void (*add_integers)(DType type, const void* input, const signed char* weights, i32* sums, i64 in, i64 out);
  /// Computes the values of a row of sums before the activation, as the fused kernel does: the sums start at
  /// the integers nearest to start.shift + start.residual * start.residual_factor, and are multiplied by
  /// `scale`.
  void (*finish_integers)(const i32* sums, const IntegerStart& start, const float* scale, float* values,
                          i64 count);
  /// Stores the integers of U8 or S8 that are nearest to value * factor.
  void (*store_integers)(DType type, const float* values, float factor, void* row, i64 count);
};

enum class VectorSet : i32 { Best, Baseline, Avx2, Avx512 };

/// Returns the table of an instruction set. VectorSet::Best stands for the widest set that this machine has.
/// Returns null if the machine lacks the set.
const VectorKernels* vector_kernels(VectorSet set);

}  // namespace minuet
