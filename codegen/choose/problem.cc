#include "codegen/choose/problem.h"

#include <algorithm>
#include <cmath>

namespace minuet {
namespace {

bool is_all_ones(const AxisArray& values, i32 ndim) {
  return std::all_of(values.begin(), values.begin() + ndim, [](i32 value) { return value == 1; });
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
      return make_error(StatusCode::InvalidArgument,
                        "axis {0} has kernel size {1} and stride {2}, but the problem has only {3} axes", a,
                        size, stride, ndim);
    }
  }
  if (kernel_volume(problem) > kMostOffsets) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernel has more than the {0} offsets that are supported", kMostOffsets);
  }
  return llvm::Error::success();
}

}  // namespace

i64 kernel_volume(const WindowProblem& problem) {
  i64 volume = 1;
  for (i32 size : problem.kernel_size) volume = std::min(volume * size, kMostOffsets + 1);
  return volume;
}

KernelGeometry make_geometry(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                             const AxisArray& tensor_stride) {
  KernelGeometry geometry;
  geometry.ndim = ndim;
  for (i32 a = 0; a < ndim; ++a) {
    geometry.kernel_size[a] = kernel_size[a];
    geometry.step[a] = dilation[a] * tensor_stride[a];
    geometry.volume *= kernel_size[a];
  }
  return geometry;
}

i32 center_offset(const KernelGeometry& geometry) {
  i32 k = 0;
  for (i32 a = 0; a < geometry.ndim; ++a) k = k * geometry.kernel_size[a] + (geometry.kernel_size[a] - 1) / 2;
  return k;
}

i32 direct_offset(bool onto_itself, DType dtype, const KernelGeometry& geometry) {
  return reads_center_in_place(onto_itself, dtype) ? center_offset(geometry) : -1;
}

llvm::Error validate(const ConvolutionProblem& problem) {
  MINUET_TRY(check_window(problem, problem.in_channels, problem.out_channels));
  if (problem.kind == ConvolutionKind::Submanifold && !is_all_ones(problem.stride, problem.ndim)) {
    return make_error(StatusCode::InvalidArgument,
                      "a submanifold convolution keeps the input's coordinates, so its stride must be 1");
  }
  if (problem.kind == ConvolutionKind::Generative) {
    return make_error(
        StatusCode::Unimplemented,
        "generative transposed convolution is not built yet: coordinate sets are made from points "
        "or by downsampling, not by spreading; use a transposed convolution onto given outputs");
  }
  if (!std::isfinite(problem.slope)) {
    return make_error(StatusCode::InvalidArgument, "the slope of a leaky ReLU must be finite");
  }
  if (problem.groups < 1) {
    return make_error(StatusCode::InvalidArgument, "groups is {0}; it must be 1 or more", problem.groups);
  }
  if (problem.groups != 1) {
    return make_error(
        StatusCode::Unimplemented,
        "grouped convolution ({0} groups) is not built yet: products run over whole channel ranges; use "
        "groups = 1",
        problem.groups);
  }
  return llvm::Error::success();
}

llvm::Error validate(const PoolingProblem& problem) {
  MINUET_TRY(check_window(problem, problem.channels, problem.channels));
  return make_error(StatusCode::Unimplemented,
                    "pooling is not built yet: no kernel reduces without weights; use a strided convolution");
}

llvm::Error validate(const ConvolutionGradientProblem& problem) {
  MINUET_TRY(validate(problem.forward));
  return make_error(
      StatusCode::Unimplemented,
      problem.gradient == Gradient::Input
          ? "the gradient of a convolution's input is not built yet: weights are not transposed; use a "
            "convolution of the transposed weights over the swapped kernel map"
          : "the gradient of a convolution's weight is not built yet: no kernel sums over rows; export the "
            "kernel map and multiply by offset");
}

llvm::Error validate(const OpProblem& problem) {
  if (const auto* convolution = std::get_if<ConvolutionProblem>(&problem)) return validate(*convolution);
  if (const auto* pooling = std::get_if<PoolingProblem>(&problem)) return validate(*pooling);
  return validate(*std::get_if<ConvolutionGradientProblem>(&problem));
}

}  // namespace minuet
