// This file declares small enumerations that select kernels. The element types are in dtypes.h.
#pragma once

#include "kernels_templates/shared/dtypes.h"

namespace minuet {

/// Selects the width of a packed coordinate key.
enum class KeyType : i32 { U32, U64 };

/// Selects the last step of an epilogue. LeakyReLU multiplies negative numbers by the slope in the Params.
enum class Activation : i32 { None, ReLU, LeakyReLU };

MINUET_HD constexpr i32 key_bytes(KeyType type) { return type == KeyType::U64 ? 8 : 4; }

template <KeyType K>
struct KeyOf {
  using Type = u32;
};
template <>
struct KeyOf<KeyType::U64> {
  using Type = u64;
};

/// These are the maximum numbers of spatial axes of a coordinate, and of fields of a packed key, which also
/// has the batch.
constexpr i32 kMaxDim = 4;
constexpr i32 kMaxFields = kMaxDim + 1;

}  // namespace minuet
