#include "codegen/choose/problem.h"

#include <algorithm>

namespace minuet {
namespace {

/// Returns InvalidArgument if no op can have this padding, or if an op of this kind has none.
llvm::Error check_padding(const WindowProblem& problem) {
  if (!problem.padding) return llvm::Error::success();
  if (problem.kind == ConvolutionKind::Submanifold) {
    return make_error(
        StatusCode::InvalidArgument,
        "a submanifold op has a centred kernel: leave out the padding, and dense_offsets or the rule "
        "\"reached\"");
  }
  for (i32 a = 0; a < kMaxDim; ++a) {
    const i32 padding = (*problem.padding)[a], most = a < problem.ndim ? kMostCells : 0;
    if (padding >= 0 && padding <= most) continue;
    return make_error(StatusCode::InvalidArgument,
                      "axis {0} has padding {1}; the padding of an op must be 0 to {2}", a, padding, most);
  }
  return llvm::Error::success();
}

/// Returns InvalidArgument if the problem has a list of offsets that no op can have.
llvm::Error check_list(const WindowProblem& problem) {
  if (problem.offsets.empty()) return llvm::Error::success();
  const AxisArray ones{1, 1, 1, 1};
  if (problem.kernel_size != ones || problem.dilation != ones || problem.padding) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernel has a list of offsets, which are all in cells: leave the kernel size, the "
                      "dilation and the padding out");
  }
  return check_offsets(problem.ndim, problem.offsets);
}

}  // namespace

ConvolutionKind swapped_kind(const WindowProblem& forward) {
  if (!forward.is_transposed()) return ConvolutionKind::Transposed;
  const bool strided = forward.stride != AxisArray{1, 1, 1, 1} || forward.padding;
  return strided ? ConvolutionKind::Strided : ConvolutionKind::GivenOutputs;
}

bool has_symmetric_offsets(const WindowProblem& problem) {
  if (!problem.offsets.empty()) return false;
  for (i32 a = 0; a < problem.ndim; ++a) {
    const i32 reach = problem.dilation[a] * (problem.kernel_size[a] - 1);
    if (problem.kernel_size[a] % 2 == 0 || (problem.padding && 2 * (*problem.padding)[a] != reach))
      return false;
  }
  return true;
}

llvm::Error check_window(const WindowProblem& problem, i32 in_channels, i32 out_channels) {
  const i32 ndim = problem.ndim;
  if (ndim < 1 || ndim > kMaxDim) {
    return make_error(StatusCode::InvalidArgument, "ndim is {0}; it must be 1 to {1}", ndim, kMaxDim);
  }
  if (in_channels < 1 || out_channels < 1 || in_channels > kMostChannels || out_channels > kMostChannels) {
    return make_error(StatusCode::InvalidArgument, "channels are {0} -> {1}; both must be 1 to {2}",
                      in_channels, out_channels, kMostChannels);
  }
  for (i32 a = 0; a < kMaxDim; ++a) {
    const i32 size = problem.kernel_size[a], stride = problem.stride[a], dilation = problem.dilation[a];
    if (size < 1 || stride < 1 || dilation < 1 || std::max({size, stride, dilation}) > kMostCells) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0} has kernel size {1}, stride {2}, dilation {3}; each must be 1 to {4}", a,
                        size, stride, dilation, kMostCells);
    }
    if (a >= ndim && (size != 1 || stride != 1)) {
      return make_error(
          StatusCode::InvalidArgument,
          "axis {0} has kernel size {1} and stride {2}, but only the first {3} axes are used: set both to 1",
          a, size, stride, ndim);
    }
  }
  MINUET_TRY(check_padding(problem));
  MINUET_TRY(check_list(problem));
  const auto is_one = [](i32 value) { return value == 1; };
  if (problem.kind == ConvolutionKind::Submanifold &&
      !std::all_of(problem.stride.begin(), problem.stride.end(), is_one)) {
    return make_error(StatusCode::InvalidArgument,
                      "a submanifold op keeps the input's coordinates, so its stride must be 1");
  }
  if (kernel_volume(problem) > kMostOffsets) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernel has more than the {0} offsets that are supported: use a smaller kernel",
                      kMostOffsets);
  }
  return llvm::Error::success();
}

AxisArray taps_of(const WindowProblem& problem) {
  if (problem.offsets.empty()) return problem.kernel_size;
  return {static_cast<i32>(problem.offsets.size()), 1, 1, 1};
}

i64 kernel_volume(const WindowProblem& problem) {
  if (!problem.offsets.empty()) return static_cast<i64>(problem.offsets.size());
  i64 volume = 1;
  for (i32 size : problem.kernel_size) volume = std::min(volume * size, kMostOffsets + 1);
  return volume;
}

KernelGeometry make_geometry(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                             const AxisArray& tensor_stride, const std::optional<AxisArray>& padding,
                             const OffsetList& offsets) {
  KernelGeometry geometry;
  geometry.ndim = ndim;
  for (i32 a = 0; a < ndim; ++a) {
    geometry.kernel_size[a] = kernel_size[a];
    geometry.step[a] = dilation[a] * tensor_stride[a];
    geometry.origin[a] =
        padding ? -(*padding)[a] * tensor_stride[a] : centred_origin(kernel_size[a]) * geometry.step[a];
    geometry.volume *= kernel_size[a];
  }
  if (!offsets.empty()) geometry.volume = static_cast<i32>(offsets.size());
  return geometry;
}

i32 center_offset(const KernelGeometry& geometry, const OffsetList& offsets) {
  if (!offsets.empty()) return find_center(offsets);
  i32 k = 0;
  for (i32 a = 0; a < geometry.ndim; ++a) k = k * geometry.kernel_size[a] + (geometry.kernel_size[a] - 1) / 2;
  return k;
}

}  // namespace minuet
