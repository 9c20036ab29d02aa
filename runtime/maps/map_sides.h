// Checks kernel maps by their kernels and the tensor strides of their two sets.
#pragma once

#include "codegen/choose/problem.h"

namespace minuet {

/// Returns InvalidArgument if no kernel map can have this kernel, and OutOfRange if `queries` rows on its
/// coarser side are too many. `fine_stride` is the tensor stride of the finer side.
/// `padding` is that of WindowProblem.
llvm::Error check_kernel(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                         const std::optional<AxisArray>& padding, const AxisArray& fine_stride, i64 queries);

/// Describes a kernel map by the properties that decide which ops it serves.
struct MapSides {
  KernelGeometry geometry;
  AxisArray fine_stride, coarse_stride;  // Hold the tensor strides of the two sets.
  bool is_same_set = false;
};
/// Returns InvalidArgument if `problem` cannot use this map. Messages call the op by the name `op`, for
/// example "convolution".
llvm::Error check_serves(const MapSides& map, const WindowProblem& problem, const char* op);

}  // namespace minuet
