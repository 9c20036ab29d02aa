// Checks the memory that the caller gives. Tensors must fit the prepared state and must not overlap other
// memory.
#include "runtime/engine/overlap.h"
#include "runtime/execution/execution.h"
#include "runtime/execution/execution_arrays.h"

namespace minuet {

Tensor Execution::wanted(i32 tensor) const {
  const TensorSpec& spec = program_.tensors[tensor];
  const DType dtype = holds_integers(tensor) ? kIntegerWords : program_.dtype;
  return {nullptr, levels_[spec.level].caller_rows, 0, spec.channels, dtype};
}

llvm::Error Execution::check_counts(std::size_t inputs, std::size_t outputs) const {
  const std::size_t features = program_.inputs.size();
  const std::size_t parameters = options_.parameter_inputs ? parameter_set_->parameters().size() : 0;
  const std::size_t wanted = program_.outputs.size();
  if (inputs == features + parameters && outputs == wanted) return llvm::Error::success();
  const std::string also = parameters > 0 ? " and " + std::to_string(parameters) + " parameters" : "";
  const char* const in = takes_residual() ? "s (the residual second)" : features > 1 ? "s" : "";
  const char* const out = program_.winners >= 0 ? "s (the winners second)" : wanted > 1 ? "s" : "";
  return make_error(StatusCode::InvalidArgument,
                    "run takes {0} input{1}{2} and {3} output{4}, but {5} and {6} are given", features, in,
                    also, wanted, out, inputs, outputs);
}

std::string Execution::name_of_input(std::size_t number) const {
  return steps_ ? steps_->input_name(number) : input_name(number);
}
std::string Execution::name_of_output(std::size_t number) const {
  return steps_ ? steps_->output_name(number) : output_name(number);
}

/// Checks the shapes, the dtypes and the alignment of features and outputs, which are as many as wanted.
llvm::Error Execution::check_tensors(llvm::ArrayRef<Tensor> features, llvm::ArrayRef<Tensor> outputs) const {
  // The shape of a dense tensor has been checked already. It may have any alignment.
  const auto is_dense = [&](i32 tensor) { return program_.tensors[tensor].is_dense(); };
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (program_.is_training_pass && features[i].data == nullptr) continue;
    if (is_dense(program_.inputs[i])) continue;
    MINUET_TRY(check_tensor(name_of_input(i), features[i], wanted(program_.inputs[i])));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is_dense(program_.outputs[i])) continue;
    MINUET_TRY(check_tensor(name_of_output(i), outputs[i], wanted(program_.outputs[i])));
  }
  return llvm::Error::success();
}

llvm::Error Execution::check_outside_workspace(const char* name, const void* data, i64 bytes) const {
  if (!overlap(memory_of(data, bytes), callers_workspace())) return llvm::Error::success();
  return overlap_error(kWorkspaceName, name);
}

llvm::Error Execution::check_coordinates(const void* coordinates, i64 rows, i32 axes) const {
  const i64 bytes = rows * (1 + axes) * static_cast<i64>(sizeof(i32));
  return check_outside_workspace("coordinates", coordinates, bytes);
}

/// Checks that memory of the caller overlaps neither the workspace, nor the status and the counts that each
/// prepare writes. Messages call it `name`.
llvm::Error Execution::check_apart_from_state(const char* name, const void* data, i64 bytes) const {
  const MemoryRows given = memory_of(data, bytes);
  MINUET_TRY(check_outside_workspace(name, data, bytes));
  const i64 words = 1 + static_cast<i64>(levels_.size());
  const bool is_own =
      overlap(given, memory_of(network_maps_->counts(), words * static_cast<i64>(sizeof(i32)))) ||
      overlap(given, memory_of(network_maps_->status(), sizeof(u32)));
  return is_own ? overlap_error("the cloud's status and counts", name) : llvm::Error::success();
}

}  // namespace minuet
