// Describes and checks feature matrices that the caller gives.
#pragma once

#include <string>

#include "codegen/base/error.h"
#include "kernels_templates/shared/dtypes.h"

namespace minuet {

/// Limits the row stride, in elements, because kernels count the bytes between two rows in 32 bits.
constexpr i64 kMostRowStride = i64{1} << 28;

/// Describes rows of `channels` consecutive elements in device memory, which the struct does not own.
struct Tensor {
  void* data = nullptr;
  i64 rows = 0;
  i64 ld = 0;  // Counts the elements from the start of a row to the start of the next one.
  i32 channels = 0;
  DType dtype = DType::F16;
};

/// Returns InvalidArgument if `given` does not have the wanted shape and dtype, or if its address or row
/// stride is not suitable for vector accesses of 16 bytes. The message names the tensor as `what`, for
/// example "input 0".
llvm::Error check_tensor(const std::string& what, const Tensor& given, const Tensor& wanted);

}  // namespace minuet
