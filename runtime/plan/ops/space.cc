#include "runtime/plan/ops/space.h"

#include "codegen/choose/tuning_key.h"

namespace minuet {
namespace {

// The kernel follows from the stride, and the direction from the kind of op. The members for columns are left
// out, because they follow from the program of the op.
llvm::json::Object write(const SpaceProblem& problem) {
  return llvm::json::Object{{"ndim", problem.ndim},
                            {"dtype", tuning_text(problem.dtype)},
                            {"stride", llvm::json::Array(problem.stride)},
                            {"channels", problem.channels}};
}

template <class Problem>
Problem read(FieldReader& fields) {
  const i32 ndim = fields.integer32("ndim", 1, kMaxDim);
  DType dtype = DType::F32;
  if (llvm::errorToBool(read_tuning_text(fields.text("dtype"), dtype))) fields.fail("dtype");
  const AxisArray stride = fields.axes("stride");
  return make_space_problem<Problem>(ndim, dtype, fields.integer32("channels", 1, kMostChannels), stride);
}

}  // namespace

llvm::json::Object write_space_to_channel(const OpProblem& problem) {
  return write(problem.get<SpaceToChannelProblem>());
}
OpProblem read_space_to_channel(FieldReader& fields) { return read<SpaceToChannelProblem>(fields); }

llvm::json::Object write_channel_to_space(const OpProblem& problem) {
  return write(problem.get<ChannelToSpaceProblem>());
}
OpProblem read_channel_to_space(FieldReader& fields) { return read<ChannelToSpaceProblem>(fields); }

}  // namespace minuet
