// Checks kernel maps by their kernels and the tensor strides of their two sets.
#pragma once

#include "codegen/choose/problem.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/set_spec.h"

namespace minuet {

/// Refers to the parts of a WindowProblem that describe its kernel.
struct KernelParts {
  const AxisArray &kernel_size, &dilation;
  const std::optional<AxisArray>& padding;
  const OffsetList& offsets;
};
/// Returns InvalidArgument if no kernel map can have this kernel, and OutOfRange if `queries` rows on its
/// coarser side are too many. `fine_stride` is the tensor stride of the finer side.
/// check_offsets() must have accepted the offsets.
llvm::Error check_kernel(i32 ndim, const KernelParts& kernel, const AxisArray& fine_stride, i64 queries);

/// Returns the tensor stride of a set that has `stride` times the tensor stride of another one, or
/// InvalidArgument if there can be no such set.
llvm::Expected<AxisArray> coarser_stride(const AxisArray& tensor_stride, const AxisArray& stride, i32 ndim);

/// Returns the tensor stride of a set that has the tensor stride of another one divided by `stride`, or
/// InvalidArgument if there can be no such set.
llvm::Expected<AxisArray> finer_stride(const AxisArray& tensor_stride, const AxisArray& stride, i32 ndim);

/// Returns InvalidArgument if no set can be reached by an op with this stride. `parent_stride` is the tensor
/// stride of the parent set.
llvm::Error check_reach(i32 ndim, const ReachSpec& reach, const AxisArray& stride,
                        const AxisArray& parent_stride);

/// Describes a kernel map by the properties that decide which ops it serves.
struct MapSides {
  KernelGeometry geometry;
  llvm::ArrayRef<AxisArray> offsets;     // Is that of MapView.
  AxisArray fine_stride, coarse_stride;  // Hold the tensor strides of the two sets.
  bool is_same_set = false;
};
/// Returns InvalidArgument if `problem` cannot use this map. Messages call the op by the name `op`, for
/// example "convolution".
llvm::Error check_serves(const MapSides& map, const WindowProblem& problem, const char* op);

}  // namespace minuet
