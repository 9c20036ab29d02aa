// This file has the only lists of element types. Every property that depends on the type alone is a column of
// the lists. Element (shared/elements.h) converts elements of a type. Other code reads a column or switches
// over all types, so that a new row does not compile until every such place handles it.
#pragma once

#include "kernels_templates/shared/macros.h"

/// Calls ROW(type, name, storage, bytes, overflow, cuda, compute) for each floating-point type. A plan has
/// one of these types, and so do the tensors that callers give it:
/// - `type` is the enumerator of DType, and the type's name in kernel names and safetensors files. The C ABI
///   calls it MINUET_<type>.
/// - `name` is the name that users see and that tuning entries store.
/// - `storage` is the type of the numbers in memory. It differs from `type` if only the operands of a GEMM
///   are rounded.
/// - `bytes` is the size of one element in memory.
/// - `overflow` holds the bits of the smallest fp32 number that becomes infinite in the type.
/// - `cuda` is cuBLASLt's type of an operand, and `compute` is cuBLASLt's compute type.
#define MINUET_DTYPES(ROW)                                                         \
  ROW(F32, "fp32", F32, 4, 0x7f800000u, CUDA_R_32F, CUBLAS_COMPUTE_32F)            \
  ROW(TF32, "tf32", F32, 4, 0x7f800000u, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32) \
  ROW(F16, "fp16", F16, 2, 0x477ff000u, CUDA_R_16F, CUBLAS_COMPUTE_32F)            \
  ROW(BF16, "bf16", BF16, 2, 0x7f7f8000u, CUDA_R_16BF, CUBLAS_COMPUTE_32F)

/// Does the same for each integer type, which has no cuBLASLt types. Only features between the layers of a
/// plan have these types, and only the fused kernel and the copies of rows read and write them. The scale of
/// a tensor is known to the host alone. No number overflows, because what is stored is limited to the type's
/// range (smallest_integer() and largest_integer()).
#define MINUET_INTEGER_DTYPES(ROW)  \
  ROW(U8, "u8", U8, 1, 0xffffffffu) \
  ROW(S8, "s8", S8, 1, 0xffffffffu)

namespace minuet {

/// Selects the type of features and weights. TF32 means fp32 in memory, with GEMM operands rounded to tf32.
/// The floating-point types come first.
enum class DType : i32 {
#define MINUET_DTYPE_ROW(type, ...) type,
  MINUET_DTYPES(MINUET_DTYPE_ROW) MINUET_INTEGER_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
};

MINUET_HD constexpr i32 dtype_bytes(DType type) {
  switch (type) {
#define MINUET_DTYPE_ROW(type, name, storage, bytes, ...) \
  case DType::type:                                       \
    return bytes;
    MINUET_DTYPES(MINUET_DTYPE_ROW)
    MINUET_INTEGER_DTYPES(MINUET_DTYPE_ROW)
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
    MINUET_INTEGER_DTYPES(MINUET_DTYPE_ROW)
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
    MINUET_INTEGER_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
  }
  return 0;
}

/// Returns true for the types whose elements are integers. The inputs and outputs of a plan never have these
/// types.
MINUET_HD constexpr bool is_integer(DType type) { return type == DType::U8 || type == DType::S8; }

/// Returns the largest element of an integer type.
MINUET_HD constexpr i32 largest_integer(DType type) { return type == DType::U8 ? 255 : 127; }

/// Returns the smallest element of an integer type. S8 has no -128, so that the magnitudes are limited to
/// largest_integer().
MINUET_HD constexpr i32 smallest_integer(DType type) { return type == DType::U8 ? 0 : -127; }

/// Returns true if an fp32 number with these bits is infinite or NaN when it is stored in the type.
MINUET_HD constexpr bool overflows(DType type, u32 bits) {
  return (bits & 0x7fffffffu) >= overflow_bits(type);
}

/// Returns true if a GEMM multiplies rounded copies of the stored numbers, so that it cannot read its
/// operands in place.
MINUET_HD constexpr bool rounds_operands(DType type) { return storage_type(type) != type; }

#if !defined(__CUDA_ARCH__)  // A device compiler would put these arrays into every kernel.
/// Lists the types that a plan can have.
constexpr DType kDTypes[] = {
#define MINUET_DTYPE_ROW(type, ...) DType::type,
    MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
};
constexpr i32 kDTypeCount = sizeof(kDTypes) / sizeof(kDTypes[0]);
/// Lists the names of the types, indexed by DType. An example is "fp16" here and "F16" in kDTypeEnumerators.
constexpr const char* kDTypeNames[] = {
#define MINUET_DTYPE_ROW(type, name, ...) name,
    MINUET_DTYPES(MINUET_DTYPE_ROW) MINUET_INTEGER_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
};
constexpr const char* kDTypeEnumerators[] = {
#define MINUET_DTYPE_ROW(type, ...) #type,
    MINUET_DTYPES(MINUET_DTYPE_ROW) MINUET_INTEGER_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
};
#endif

}  // namespace minuet
