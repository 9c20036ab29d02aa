// Feature matrices given by the caller.
#pragma once

#include <string>

#include "codegen/base/error.h"
#include "kernels_templates/shared/dtypes.h"

namespace minuet {

/// In elements. Kernels count the bytes between two rows in 32 bits.
constexpr i64 kMostRowStride = i64{1} << 28;

/// Rows of `channels` consecutive elements in device memory. Does not own them.
struct Tensor {
  void* data = nullptr;
  i64 rows = 0;
  i64 ld = 0;  // elements from row to row
  i32 channels = 0;
  DType dtype = DType::F16;
};

/// Returns InvalidArgument, naming `what` (for example "input 0"), if `given` is not [wanted.rows,
/// wanted.channels] of the wanted dtype, or if its address or row stride is not suitable for vector accesses
/// of 16 bytes.
llvm::Error check_tensor(const std::string& what, const Tensor& given, const Tensor& wanted);

}  // namespace minuet
