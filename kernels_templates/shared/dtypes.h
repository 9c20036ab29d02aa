// THE list of element types: what depends on a type and on nothing else is a column here, and how an
// element is converted is Element (shared/elements.h). Nobody else lists the types: who treats one apart
// asks for a column, or switches over all of them, so that a new row does not compile until it is served.
#pragma once

#include "kernels_templates/shared/macros.h"

/// ROW(type, name, storage, bytes, cuda, compute):
/// - type: DType's enumerator, MINUET_<type> of the ABI, the type's name in kernels' names and safetensors;
/// - name: what people and tuning entries call it;
/// - storage: the type that memory, partial sums and residuals have: another one where only the operands of
///   a GEMM are rounded;
/// - bytes: of one element in memory;
/// - overflow: the bits of the least fp32 number that becomes infinite there;
/// - cuda, compute: cuBLASLt's type of an operand, and how it multiplies two.
#define MINUET_DTYPES(ROW)                                                         \
  ROW(F32, "fp32", F32, 4, 0x7f800000u, CUDA_R_32F, CUBLAS_COMPUTE_32F)            \
  ROW(TF32, "tf32", F32, 4, 0x7f800000u, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32) \
  ROW(F16, "fp16", F16, 2, 0x477ff000u, CUDA_R_16F, CUBLAS_COMPUTE_32F)            \
  ROW(BF16, "bf16", BF16, 2, 0x7f7f8000u, CUDA_R_16BF, CUBLAS_COMPUTE_32F)

namespace minuet {

/// Type of features and weights. TF32 is fp32 storage whose GEMM operands are rounded to tf32.
enum class DType : i32 {
#define MINUET_DTYPE_ROW(type, ...) type,
  MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
};

MINUET_HD constexpr i32 dtype_bytes(DType type) {
  switch (type) {
#define MINUET_DTYPE_ROW(type, name, storage, bytes, ...) \
  case DType::type:                                       \
    return bytes;
    MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
  }
  return 0;
}

MINUET_HD constexpr DType storage_type(DType type) {
  switch (type) {
#define MINUET_DTYPE_ROW(type, name, storage, ...) \
  case DType::type:                                \
    return DType::storage;
    MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
  }
  return type;
}

MINUET_HD constexpr u32 overflow_bits(DType type) {
  switch (type) {
#define MINUET_DTYPE_ROW(type, name, storage, bytes, overflow, ...) \
  case DType::type:                                                 \
    return overflow;
    MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
  }
  return 0;
}

/// Whether memory of the type holds infinity or NaN for an fp32 number of these bits.
MINUET_HD constexpr bool overflows(DType type, u32 bits) {
  return (bits & 0x7fffffffu) >= overflow_bits(type);
}

/// Whether a GEMM multiplies other numbers than those in memory: no operand is read in place then.
MINUET_HD constexpr bool rounds_operands(DType type) { return storage_type(type) != type; }

#if !defined(__CUDA_ARCH__)  // a device's compiler would put these into every kernel
constexpr DType kDTypes[] = {
#define MINUET_DTYPE_ROW(type, ...) DType::type,
    MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
};
constexpr i32 kDTypeCount = sizeof(kDTypes) / sizeof(kDTypes[0]);
/// "fp16", and "F16" of the enumerator.
constexpr const char* kDTypeNames[] = {
#define MINUET_DTYPE_ROW(type, name, ...) name,
    MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
};
constexpr const char* kDTypeEnumerators[] = {
#define MINUET_DTYPE_ROW(type, ...) #type,
    MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
};
#endif

}  // namespace minuet
