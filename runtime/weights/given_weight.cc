#include "runtime/weights/given_weight.h"

#include <cstdint>
#include <string>

#include "runtime/weights/stored_tensor.h"

namespace minuet {
namespace {

std::string text_of(llvm::ArrayRef<i64> shape) { return shape_text({shape.begin(), shape.end()}); }

/// Returns the stride in `array` of an axis that has the stride `wanted` in a contiguous array of the same
/// shape. The axis may be a part of an axis of the array, as an axis of the kernel is part of the offsets.
i64 stride_in(const GivenArray& array, i64 wanted) {
  i64 contiguous = 1;
  for (std::size_t axis = array.shape.size(); axis-- > 0;) {
    const i64 next = contiguous * array.shape[axis];
    if (wanted < next) return wanted / contiguous * array.strides[axis];
    contiguous = next;
  }
  return 0;  // Only an axis of extent 1 can have a stride that is as large as the array.
}

}  // namespace

llvm::Expected<GivenWeight> find_weight(const GivenArray& array, WeightsOrder order,
                                        const ConvolutionProblem& problem, llvm::StringRef name) {
  MINUET_TRY(check_carries_over(order, problem));
  const std::vector<WeightLayout> layouts = weight_layouts(order, problem, name);
  bool is_ambiguous = false;
  const WeightLayout* const layout = find_layout(layouts, array.shape, problem, is_ambiguous);
  if (is_ambiguous) {
    return make_error(StatusCode::InvalidArgument, "{0}", ambiguity_text(order, text_of(array.shape)));
  }
  if (layout == nullptr) {
    std::string needs;
    for (const WeightLayout& one : layouts) needs += (needs.empty() ? "" : " or ") + text_of(one.shape);
    return make_error(StatusCode::InvalidArgument, "its shape is {0}; in the order \"{1}\" it must be {2}",
                      text_of(array.shape), weights_order_name(order), needs);
  }
  if (layout->is_by_memory && !is_contiguous(array)) {
    return make_error(
        StatusCode::InvalidArgument,
        "in the order \"{0}\" a kernel of one offset is read by its memory, as spconv does, but the "
        "elements of this array are apart: give a contiguous array, or the order \"minuet\"",
        weights_order_name(order));
  }
  GivenWeight given;
  const AxisArray taps = taps_of(problem);
  for (i32 axis = 0; axis < problem.ndim; ++axis) {
    given.shape.push_back(taps[axis]);
    given.strides.push_back(stride_in(array, layout->tap_strides[axis]));
  }
  given.shape.append({i64{group_inputs(problem)}, i64{problem.out_channels}});
  if (layout->is_by_memory) {
    given.strides.append({layout->in_stride, layout->out_stride});
  } else {
    given.strides.append({stride_in(array, layout->in_stride), stride_in(array, layout->out_stride)});
  }
  return given;
}

GivenWeight transposed(const GivenWeight& forward, const ConvolutionProblem& problem) {
  const auto axes = static_cast<std::size_t>(problem.ndim);
  const i64 inputs = problem.in_channels / problem.groups, outputs = problem.out_channels / problem.groups;
  const i64 input_stride = forward.strides[axes + 1], output_stride = forward.strides[axes];
  GivenWeight given;
  given.shape.assign(forward.shape.begin(), forward.shape.begin() + problem.ndim);
  given.strides.assign(forward.strides.begin(), forward.strides.begin() + problem.ndim);
  if (is_mirrored(problem)) {
    for (std::size_t axis = 0; axis < axes; ++axis) {
      given.first += (given.shape[axis] - 1) * given.strides[axis];
      given.strides[axis] = -given.strides[axis];
    }
  }
  given.shape.append({inputs, i64{problem.groups}, outputs});
  given.strides.append({input_stride, input_stride * inputs, output_stride});
  return given;
}

void GivenWeight::join_axes() {
  std::size_t rank = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    const i64 joined = rank > 0 ? shape[rank - 1] * shape[axis] : 0;
    if (rank > 0 && strides[rank - 1] == strides[axis] * shape[axis] && joined <= INT32_MAX) {
      shape[rank - 1] = joined;
      strides[rank - 1] = strides[axis];
      continue;
    }
    shape[rank] = shape[axis];
    strides[rank++] = strides[axis];
  }
  if (rank == 0) shape[rank] = 1, strides[rank++] = 1;
  shape.resize(rank);
  strides.resize(rank);
}

llvm::Expected<GivenWeight> find_vector(const GivenArray& array, WeightsOrder order, i64 channels) {
  for (const std::vector<int64_t>& shape : vector_shapes(order, channels)) {
    if (llvm::equal(shape, array.shape)) return GivenWeight{{channels}, {array.strides.back()}};
  }
  return make_error(StatusCode::InvalidArgument, "its shape is {0}; it must be a vector of {1} elements",
                    text_of(array.shape), channels);
}

void read_from(GivenWeight given, ParameterCopy& job) {
  given.join_axes();
  job.source = static_cast<const char*>(job.source) +
               given.first * element_bytes(static_cast<ElementType>(job.element));
  job.rank = static_cast<i32>(given.shape.size());
  job.elements = 1;
  for (i32 axis = 0; axis < job.rank; ++axis) {
    job.elements *= given.shape[axis];
    job.shape[axis] = static_cast<i32>(given.shape[axis]);
    job.strides[axis] = given.strides[axis];
  }
}

llvm::Error check_f32(const GivenArray& array) {
  if (array.element == ElementType::F32) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "its element is {0}; it must be f32 (0)",
                    element_name(array.element));
}

WeightImageJob image_from(const GivenWeight& given, i32 kernel_axes, const void* data,
                          const FusedImage& layout, void* image) {
  const auto axes = static_cast<std::size_t>(kernel_axes);
  GivenWeight kernel;
  kernel.shape.assign(given.shape.begin(), given.shape.begin() + kernel_axes);
  kernel.strides.assign(given.strides.begin(), given.strides.begin() + kernel_axes);
  kernel.join_axes();
  const void* const first = static_cast<const float*>(data) + given.first;
  WeightImageJob job = stored_image_job(layout, first, image);
  job.kernel_rank = static_cast<i32>(kernel.shape.size());
  for (i32 axis = 0; axis < job.kernel_rank; ++axis) {
    job.kernel_shape[axis] = static_cast<i32>(kernel.shape[axis]);
    job.kernel_strides[axis] = kernel.strides[axis];
  }
  job.in_stride = given.strides[axes];
  job.out_stride = given.strides.back();
  job.stored = DType::F32;
  job.shares = image_shares(job);
  return job;
}

llvm::Error check_distinct(const GivenArray& array) {
  llvm::SmallVector<std::pair<i64, i64>, kMaxArrayAxes> axes;  // The stride and the extent of each axis.
  for (std::size_t axis = 0; axis < array.shape.size(); ++axis) {
    if (array.shape[axis] > 1) axes.push_back({array.strides[axis], array.shape[axis]});
  }
  llvm::sort(axes);
  i64 reach = 0;  // The farthest element of the axes so far.
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) {
      return make_error(StatusCode::InvalidArgument,
                        "two of its elements share memory, because it has a stride of {0}: give an array "
                        "whose elements are apart",
                        stride);
    }
    reach += (extent - 1) * stride;
  }
  return llvm::Error::success();
}

}  // namespace minuet
