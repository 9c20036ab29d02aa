// The caller's matrices.
#pragma once

#include <string>

#include "codegen/base/error.h"
#include "kernels_templates/shared/dtypes.h"

namespace minuet {

/// Elements: kernels count the bytes between two rows in 32 bits.
constexpr i64 kMostRowStride = i64{1} << 28;

/// Rows of `channels` consecutive elements in device memory.
struct Tensor {
  void* data = nullptr;
  i64 rows = 0;
  i64 ld = 0;  // elements from row to row
  i32 channels = 0;
  DType dtype = DType::F16;
};

/// InvalidArgument, naming `what` ("input 0"), where `given` is not [wanted.rows, wanted.channels] of its
/// dtype, or lies where vectors of 16 bytes do not reach it.
llvm::Error check_tensor(const std::string& what, const Tensor& given, const Tensor& wanted);

}  // namespace minuet
