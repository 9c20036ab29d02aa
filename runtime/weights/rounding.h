// Converts fp32 arrays on the host to the storage format of a dtype and back. The results equal those of
// kernels_templates/shared/elements.h bit by bit. The functions use the widest vector instructions of the
// processor.
#pragma once

#include <cstddef>

#include "kernels_templates/shared/dtypes.h"

namespace minuet {

/// Rounds values to the fp32 numbers that a GEMM of `dtype` multiplies. `rounded` must equal `values` or not
/// overlap it. Returns true if all rounded values are finite.
bool round_values(DType dtype, const float* values, std::size_t count, float* rounded);

/// Stores values in the format of `dtype`. They take dtype_bytes(dtype) * count bytes.
void store_values(DType dtype, const float* values, std::size_t count, void* target);

/// Loads values stored in the format of `dtype`.
void load_values(DType dtype, const void* source, std::size_t count, float* values);

/// Returns true if no value is infinite or NaN.
bool are_finite(const float* values, std::size_t count);

}  // namespace minuet
