#include "runtime/maps/map_sides.h"

#include <algorithm>

#include "runtime/engine/cloud_layout.h"

namespace minuet {

llvm::Error check_kernel(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                         const std::optional<AxisArray>& padding, const AxisArray& fine_stride, i64 queries) {
  i64 volume = 1;
  for (i32 a = 0; a < kMaxDim; ++a) {
    if (kernel_size[a] < 1 || dilation[a] < 1 || dilation[a] > kMostCells ||
        (a >= ndim && kernel_size[a] != 1)) {
      return make_error(
          StatusCode::InvalidArgument,
          "axis {0} has kernel size {1} and dilation {2}; a kernel size must be 1 or more on the "
          "first {3} axes and 1 on the others, a dilation 1 to {4}",
          a, kernel_size[a], dilation[a], ndim, kMostCells);
    }
    volume *= kernel_size[a];
    if (volume > kMostOffsets) {
      return make_error(
          StatusCode::InvalidArgument,
          "axis {0}: with kernel size {1} the kernel has {2} offsets; at most {3} are supported", a,
          kernel_size[a], volume, kMostOffsets);
    }
    const i64 step = static_cast<i64>(dilation[a]) * fine_stride[a];
    if (kernel_size[a] > kFarthestOffset / step) {
      return make_error(
          StatusCode::InvalidArgument,
          "axis {0}: kernel size {1} times dilation {2} times tensor stride {3} is more than {4}, "
          "the largest extent of a kernel in cells",
          a, kernel_size[a], dilation[a], fine_stride[a], kFarthestOffset);
    }
    if (padding && ((*padding)[a] < 0 || (*padding)[a] > (a < ndim ? kFarthestOffset / fine_stride[a] : 0))) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0} has padding {1}; at tensor stride {2} it must be 0 to {3}", a,
                        (*padding)[a], fine_stride[a], a < ndim ? kFarthestOffset / fine_stride[a] : 0);
    }
  }
  if (queries > most_map_rows(volume)) {
    return make_error(StatusCode::OutOfRange,
                      "{0} offsets times {1} rows are more than the 2^31 - 1 entries that a kernel map can "
                      "hold: split the batch",
                      volume, queries);
  }
  return llvm::Error::success();
}

llvm::Expected<AxisArray> coarser_stride(const AxisArray& tensor_stride, const AxisArray& stride, i32 ndim) {
  AxisArray coarse{1, 1, 1, 1};
  for (i32 a = 0; a < ndim; ++a) {
    const i64 product = static_cast<i64>(tensor_stride[a]) * stride[a];
    if (stride[a] < 1 || product > kMostCells) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0}: stride {1} times tensor stride {2} must be 1 to 2^24", a, stride[a],
                        tensor_stride[a]);
    }
    coarse[a] = static_cast<i32>(product);
  }
  return coarse;
}

llvm::Expected<AxisArray> finer_stride(const AxisArray& tensor_stride, const AxisArray& stride, i32 ndim) {
  AxisArray fine{1, 1, 1, 1};
  for (i32 a = 0; a < ndim; ++a) {
    if (stride[a] < 1 || tensor_stride[a] % stride[a] != 0) {
      return make_error(
          StatusCode::InvalidArgument,
          "axis {0}: stride {1} does not divide {2}, the tensor stride of the coarser set: use a "
          "stride that does",
          a, stride[a], tensor_stride[a]);
    }
    fine[a] = tensor_stride[a] / stride[a];
  }
  return fine;
}

llvm::Error check_reach(i32 ndim, const ReachSpec& reach, const AxisArray& stride,
                        const AxisArray& parent_stride) {
  AxisArray finer = parent_stride;
  if (reach.is_generative) {
    MINUET_ASSIGN(finer, finer_stride(parent_stride, stride, ndim));
  } else {
    MINUET_TRY(coarser_stride(parent_stride, stride, ndim).takeError());
  }
  return check_kernel(ndim, reach.kernel_size, reach.dilation, reach.padding, finer, /*queries=*/0);
}

/// Returns the numbers of a problem's axes, for example "2, 2, 3".
static std::string axes_text(const AxisArray& numbers, i32 ndim) {
  std::string text;
  for (i32 a = 0; a < ndim; ++a) text += (a > 0 ? ", " : "") + std::to_string(numbers[a]);
  return text;
}

/// Returns the options of the kernel map that an op reads, for messages.
static std::string kernel_text(const WindowProblem& problem) {
  const std::string text = "kernel_size " + axes_text(problem.kernel_size, problem.ndim) + ", dilation " +
                           axes_text(problem.dilation, problem.ndim);
  if (!problem.padding) return text + " and no dense_offsets";
  return text + ", dense_offsets and padding " + axes_text(*problem.padding, problem.ndim);
}

llvm::Error check_serves(const MapSides& map, const WindowProblem& problem, const char* op) {
  for (i32 a = 0; a < problem.ndim; ++a) {
    const i64 step = static_cast<i64>(problem.dilation[a]) * map.fine_stride[a];
    if (step <= kFarthestOffset) continue;
    return make_error(
        StatusCode::InvalidArgument,
        "axis {0}: dilation {1} on tensor stride {2} reaches {3} cells; at most {4} are supported", a,
        problem.dilation[a], map.fine_stride[a], step, kFarthestOffset);
  }
  const KernelGeometry wanted =
      make_geometry(problem.ndim, problem.kernel_size, problem.dilation, map.fine_stride, problem.padding);
  const KernelGeometry& got = map.geometry;
  if (got.ndim != wanted.ndim ||
      !std::equal(got.kernel_size, got.kernel_size + kMaxDim, wanted.kernel_size) ||
      !std::equal(got.step, got.step + kMaxDim, wanted.step) ||
      !std::equal(got.origin, got.origin + kMaxDim, wanted.origin)) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernel map and the {0} differ in kernel size, dilation or padding: make the map "
                      "with {1}",
                      op, kernel_text(problem));
  }
  if (problem.kind == ConvolutionKind::Submanifold && !map.is_same_set) {
    return make_error(StatusCode::InvalidArgument,
                      "a submanifold {0} needs a map whose output set is its input set: make the map with "
                      "the same set for both",
                      op);
  }
  for (i32 a = 0; a < problem.ndim && problem.kind != ConvolutionKind::GivenOutputs; ++a) {
    if (static_cast<i64>(map.fine_stride[a]) * problem.stride[a] != map.coarse_stride[a]) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0}: the tensor strides of the map's sets, {1} and {2}, do not differ by a "
                        "factor of {3}, the {4}'s stride",
                        a, map.fine_stride[a], map.coarse_stride[a], problem.stride[a], op);
    }
  }
  return llvm::Error::success();
}

}  // namespace minuet
