#include "runtime/network/stride_between.h"

namespace minuet {

llvm::Expected<AxisArray> stride_between(const Program& program, const std::string& onto, i32 fine,
                                         i32 coarse) {
  const LevelSpec &one = program.levels[fine], &other = program.levels[coarse];
  if (one.holds_items || other.holds_items || (one.dropped_axes & ~other.dropped_axes) != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "\"{0}\" lacks an axis that the layer's input has, or one of both has a row for each "
                      "batch item: there is no way from one to the other",
                      onto);
  }
  AxisArray stride{1, 1, 1, 1};
  for (i32 a = 0; a < program.ndim; ++a) {
    const i32 wanted = one.tensor_stride[a], given = other.tensor_stride[a];
    if (given % wanted != 0) {
      return make_error(
          StatusCode::InvalidArgument,
          "axis {0}: the tensor stride of the layer's input is {1}, which is no multiple of {2}, "
          "that of \"{3}\"",
          a, given, wanted, onto);
    }
    stride[a] = given / wanted;
  }
  return stride;
}

}  // namespace minuet
