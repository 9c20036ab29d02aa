#include "runtime/weights/given_weight.h"

#include <algorithm>
#include <string>

namespace minuet {
namespace {

std::string text_of(llvm::ArrayRef<i64> shape) {
  std::string text = "[";
  for (const i64 size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

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
  std::string needs;
  for (const WeightLayout& layout : weight_layouts(order, problem, name)) {
    if (llvm::ArrayRef<i64>(layout.shape) != llvm::ArrayRef<i64>(array.shape)) {
      needs += (needs.empty() ? "" : " or ") + text_of(layout.shape);
      continue;
    }
    GivenWeight given;
    for (i32 axis = 0; axis < problem.ndim; ++axis) {
      given.shape.push_back(problem.kernel_size[axis]);
      given.strides.push_back(stride_in(array, layout.tap_strides[axis]));
    }
    given.shape.append({i64{problem.in_channels}, i64{problem.out_channels}});
    given.strides.append({stride_in(array, layout.in_stride), stride_in(array, layout.out_stride)});
    return given;
  }
  return make_error(StatusCode::InvalidArgument, "its shape is {0}; in the order \"{1}\" it must be {2}",
                    text_of(array.shape), weights_order_name(order), needs);
}

}  // namespace minuet
