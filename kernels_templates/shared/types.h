// Element types and small enumerations that choose between kernels.
#pragma once

#include "kernels_templates/shared/macros.h"

namespace minuet {

/// Storage type of features. TF32 is fp32 storage whose GEMM operands are rounded to tf32.
enum class DType : i32 { F32, TF32, F16, BF16 };

/// Width of a packed coordinate key.
enum class KeyType : i32 { U32, U64 };

/// What the scatter's epilogue does last.
enum class Activation : i32 { None, ReLU };

MINUET_HD constexpr i32 dtype_bytes(DType type) { return type == DType::F16 || type == DType::BF16 ? 2 : 4; }

MINUET_HD constexpr i32 key_bytes(KeyType type) { return type == KeyType::U64 ? 8 : 4; }

template <KeyType K>
struct KeyOf {
  using Type = u32;
};
template <>
struct KeyOf<KeyType::U64> {
  using Type = u64;
};

/// Most spatial axes a coordinate may have, and the fields of a packed key (batch first).
constexpr i32 kMaxDim = 4;
constexpr i32 kMaxFields = kMaxDim + 1;

}  // namespace minuet
