// Arrays of fp32 on the host to the storage of a dtype and back, by shared/elements.h.
#pragma once

#include <cstddef>

#include "kernels_templates/shared/dtypes.h"

namespace minuet {

/// The value that a GEMM of `dtype` multiplies, as fp32.
void round_values(DType dtype, float* values, std::size_t count);

/// Values as they lie in memory of `dtype`: dtype_bytes(dtype) * count bytes.
void store_values(DType dtype, const float* values, std::size_t count, void* target);

/// And back: fp32 from memory of `dtype`.
void load_values(DType dtype, const void* source, std::size_t count, float* values);

}  // namespace minuet
