// Runs a plan with values of its parameters that the caller gives (ParameterSet).
#include "runtime/execution/execution.h"

namespace minuet {

llvm::Error Execution::check_parameters(const LoadedPlan& loaded, const ExecutionOptions& options) {
  if (options.parameters && options.parameter_inputs) {
    return make_error(StatusCode::InvalidArgument,
                      "parameters are given and parameter_inputs is set: choose one of them");
  }
  const LoadedPlan& whole = loaded.whole ? *loaded.whole : loaded;
  if (options.parameters && &options.parameters->loaded() != &whole) {
    return make_error(StatusCode::InvalidArgument,
                      "the parameters were created for another plan or another device");
  }
  if (loaded.plan->has_values || options.parameters || options.parameter_inputs)
    return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition, "the plan was created without values: give parameters{0}",
                    options.on.pyramid ? "" : ", or set parameter_inputs");
}

/// Returns the selected candidates of all layers that have kernels of their own.
std::vector<CandidateSelection> Execution::selections() const {
  std::vector<CandidateSelection> made;
  for (i32 i = 0; i < layer_count(); ++i) {
    if (is_covered(i)) continue;
    made.push_back(
        {loaded_->layer_of_plan(static_cast<std::size_t>(i)), static_cast<std::size_t>(selected_[i])});
  }
  return made;
}

/// Gets the addresses of the parameters that the selected candidates read, if the caller gives the values.
llvm::Error Execution::take_parameters() {
  if (!parameter_set_ && !prepared_block_) return llvm::Error::success();
  ParameterSet::Selected selected;
  if (prepared_block_) {
    selected.pointers = prepared_parameters().pointers(prepared_block_);
  } else if (placed_) {
    MINUET_ASSIGN(selected, parameter_set_->select_for_run(selections(), options_.on.pyramid.get(),
                                                           engine_->was_captured()));
  } else {
    MINUET_ASSIGN(selected, parameter_set_->select(selections()));
  }
  set_pointers_.resize(program_.layers.size());
  std::size_t next = 0;
  for (i32 i = 0; i < layer_count(); ++i) {
    if (!is_covered(i)) set_pointers_[i] = std::move(selected.pointers[next++]);
  }
  for (std::shared_ptr<const void>& image : selected.images) {
    if (!llvm::is_contained(set_images_, image)) set_images_.push_back(std::move(image));
  }
  return llvm::Error::success();
}

PreparedParameters& Execution::prepared_parameters() {
  // The candidates of an execution on a pyramid are selected once, by the capacities.
  if (!prepared_parameters_) prepared_parameters_.emplace(*loaded_, selections());
  return *prepared_parameters_;
}

llvm::Error Execution::prepare_parameters(llvm::ArrayRef<GivenArray> values, WeightsOrder order, void* block,
                                          i64 bytes, void* stream) {
  const PreparedParameters& prepared = prepared_parameters();
  if (prepared.parameters().empty()) {
    return make_error(StatusCode::InvalidArgument, "the plan has no parameters to prepare");
  }
  MINUET_TRY(check_block("prepared", block, bytes, prepared.bytes()));
  auto* const begin = static_cast<char*>(block);
  MINUET_ASSIGN(const PreparedParameters::Jobs jobs, prepared.jobs(values, order, begin));
  std::vector<NamedMemory> read;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& name = prepared.parameters()[i].name;
    if (values[i].on_host && !loaded_->device->info().arch.empty()) {
      return make_error(StatusCode::InvalidArgument,
                        "parameter \"{0}\" is in host memory (on_host): copy it to the device first", name);
    }
    read.push_back({name, memory_of(values[i].data, spanned_bytes(values[i]))});
  }
  MINUET_TRY(check_apart(NamedMemory{"prepared", memory_of(block, prepared.bytes())}, read));
  return call(stream, Timed::Nothing, [&] { return prepared.enqueue(jobs, begin, *engine_); });
}

/// Describes an input that is a parameter. It is a matrix whose columns are the last axis of the parameter
/// and whose rows are all other axes. It may have any dtype.
Tensor Execution::wanted_parameter(std::size_t parameter, DType dtype) const {
  const std::vector<int64_t>& shape = parameter_set_->parameters()[parameter].shape;
  i64 rows = 1;
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) rows *= shape[axis];
  return {nullptr, rows, 0, static_cast<i32>(shape.back()), dtype};
}

llvm::Error Execution::check_parameter_inputs(llvm::ArrayRef<Tensor> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    MINUET_TRY(check_tensor(parameter_names_[i], values[i], wanted_parameter(i, values[i].dtype)));
  }
  return llvm::Error::success();
}

/// Returns the parameters that run() takes as inputs, which are checked.
std::vector<ParameterValue> Execution::read_parameters(llvm::ArrayRef<Tensor> matrices) const {
  std::vector<ParameterValue> values(matrices.size());
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const std::vector<int64_t>& shape = parameter_set_->parameters()[i].shape;
    values[i].parameter = static_cast<i32>(i);
    GivenArray& array = values[i].array;
    array.data = matrices[i].data;
    array.element = static_cast<ElementType>(storage_type(matrices[i].dtype));
    array.shape.assign(shape.begin(), shape.end());
    array.strides.resize(shape.size());
    array.strides.back() = 1;
    i64 stride = matrices[i].ld;
    for (std::size_t axis = shape.size() - 1; axis-- > 0; stride *= shape[axis]) array.strides[axis] = stride;
  }
  return values;
}

}  // namespace minuet
