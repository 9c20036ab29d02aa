// Runs a plan with values of its parameters that the caller gives (ParameterSet).
#include "runtime/execution/execution.h"

namespace minuet {

/// Checks that the execution has values of the plan's parameters from exactly one place.
llvm::Error Execution::check_parameters(const LoadedPlan& loaded, const ExecutionOptions& options) {
  if (options.parameters && options.parameter_inputs) {
    return make_error(StatusCode::InvalidArgument,
                      "parameters are given and parameter_inputs is set: choose one of them");
  }
  if (options.parameters && &options.parameters->loaded() != &loaded) {
    return make_error(StatusCode::InvalidArgument,
                      "the parameters were created for another plan or another device");
  }
  if (loaded.plan->has_values || options.parameters || options.parameter_inputs)
    return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "the plan was created without values: give parameters, or set parameter_inputs");
}

/// Gets the addresses of the parameters that the selected candidates read, if the caller gives the values.
llvm::Error Execution::take_parameters() {
  if (!parameter_set_) return llvm::Error::success();
  std::vector<ParameterSet::Selection> selections;
  for (i32 i = 0; i < layer_count(); ++i) {
    if (!is_covered(i))
      selections.push_back({static_cast<std::size_t>(i), static_cast<std::size_t>(selected_[i])});
  }
  MINUET_ASSIGN(auto pointers, parameter_set_->select(selections));
  set_pointers_.resize(program_.layers.size());
  for (std::size_t i = 0; i < selections.size(); ++i) {
    set_pointers_[selections[i].layer] = std::move(pointers[i]);
  }
  return llvm::Error::success();
}

/// Returns the parameters that run() takes as inputs. Each is a matrix whose columns are the last axis of the
/// parameter and whose rows are all others.
llvm::Expected<std::vector<ParameterValue>> Execution::read_parameters(
    llvm::ArrayRef<Tensor> matrices) const {
  std::vector<ParameterValue> values;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const PlanParameter& parameter = parameter_set_->parameters()[i];
    const Tensor& given = matrices[i];
    i64 rows = 1;
    for (std::size_t axis = 0; axis + 1 < parameter.shape.size(); ++axis) rows *= parameter.shape[axis];
    const std::string name = "the input for parameter \"" + parameter.name + "\"";
    const Tensor wanted{nullptr, rows, 0, static_cast<i32>(parameter.shape.back()), given.dtype};
    MINUET_TRY(check_tensor(name, given, wanted));
    ParameterValue& value = values.emplace_back();
    value.parameter = static_cast<i32>(i);
    value.array.data = given.data;
    value.array.element = static_cast<ElementType>(storage_type(given.dtype));
    value.array.shape.assign(parameter.shape.begin(), parameter.shape.end());
    value.array.strides.resize(parameter.shape.size());
    i64 stride = given.ld;
    value.array.strides.back() = 1;
    for (std::size_t axis = parameter.shape.size() - 1; axis-- > 0;) {
      value.array.strides[axis] = stride;
      stride *= parameter.shape[axis];
    }
  }
  return values;
}

}  // namespace minuet
