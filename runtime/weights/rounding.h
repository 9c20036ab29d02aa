// Arrays of fp32 on the host to the storage of a dtype and back: the numbers of shared/elements.h, bit by
// bit, by the widest instructions that the processor has.
#pragma once

#include <cstddef>

#include "kernels_templates/shared/dtypes.h"

namespace minuet {

/// The values that a GEMM of `dtype` multiplies, as fp32. `rounded` is `values`, or lies apart. Whether all
/// are finite once they are rounded.
bool round_values(DType dtype, const float* values, std::size_t count, float* rounded);

/// Values as they lie in memory of `dtype`: dtype_bytes(dtype) * count bytes.
void store_values(DType dtype, const float* values, std::size_t count, void* target);

/// And back: fp32 from memory of `dtype`.
void load_values(DType dtype, const void* source, std::size_t count, float* values);

/// Whether no value is infinite or NaN.
bool are_finite(const float* values, std::size_t count);

}  // namespace minuet
