#include "runtime/plan/ops/space.h"

namespace minuet {
namespace {

// The kernel follows from the stride. The members for columns are left out, because they follow from the
// program of the op.
llvm::json::Object write(const SpaceProblem& problem) {
  llvm::json::Object fields = window_fields(problem);
  fields["channels"] = problem.channels;
  return fields;
}

template <class Problem>
Problem read(FieldReader& fields) {
  WindowProblem window;
  read_window_fields(fields, window);
  const i32 channels = fields.integer32("channels", 1, kMostChannels);
  return make_space_problem<Problem>(window.ndim, window.dtype, channels, window.stride);
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
