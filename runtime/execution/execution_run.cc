// Runs what is prepared, with matrices (run()) or arrays (run_arrays()) of the caller, and gives the
// coordinates of outputs.
#include "runtime/execution/execution.h"

namespace minuet {
namespace {

/// Returns the memory of an array. Rows are told apart if the last axis is contiguous and one stride leads
/// through all other axes. Otherwise the result is all memory from the first element to the last one.
MemoryRows memory_of_array(const GivenArray& array) {
  const i64 element = element_bytes(array.element), columns = array.shape.back();
  i64 rows = 1, stride = 0;
  bool has_rows = columns == 1 || array.strides.back() == 1;
  for (std::size_t axis = array.shape.size() - 1; axis-- > 0;) {
    if (array.shape[axis] == 1) continue;
    if (rows == 1) stride = array.strides[axis];
    has_rows = has_rows && array.strides[axis] == stride * rows;
    rows *= array.shape[axis];
  }
  if (!has_rows || (rows > 1 && stride < columns)) return memory_of(array.data, spanned_bytes(array));
  return {reinterpret_cast<std::uintptr_t>(array.data), rows, stride * element, columns * element};
}

/// Returns, for example, "1, 256, 200, 176".
std::string numbers_text(llvm::ArrayRef<i64> numbers) {
  std::string text;
  for (const i64 number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

llvm::Error check_element(const std::string& what, const GivenArray& array, ElementType wanted) {
  if (array.element == wanted) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} has elements of {1}, but the plan needs {2}", what,
                    element_name(array.element), element_name(wanted));
}

std::string input_name(std::size_t number) { return "input " + std::to_string(number); }
std::string output_name(std::size_t number) { return "output " + std::to_string(number); }

}  // namespace

llvm::Error Execution::run(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs, void* stream) {
  MINUET_TRY(check_prepared());
  if (program_.winners >= 0) {
    return make_error(StatusCode::FailedPrecondition,
                      "the plan has winners, which are an i32 array: use minuet_execution_run_arrays");
  }
  if (llvm::any_of(program_.outputs, [&](i32 output) { return holds_integers(output); })) {
    return make_error(
        StatusCode::FailedPrecondition,
        "an output of the plan is an i32 array and holds no features: use minuet_execution_run_arrays");
  }
  if (llvm::any_of(program_.outputs, [&](i32 output) { return program_.tensors[output].is_dense(); })) {
    return make_error(
        StatusCode::FailedPrecondition,
        "an output of the plan is a dense array and no matrix: use minuet_execution_run_arrays");
  }
  MINUET_TRY(check_counts(inputs.size(), outputs.size()));
  const llvm::ArrayRef<Tensor> features = inputs.take_front(program_.inputs.size());
  const llvm::ArrayRef<Tensor> parameters = inputs.drop_front(features.size());
  MINUET_TRY(check_tensors(features, outputs));
  MINUET_TRY(check_parameter_inputs(parameters));
  MINUET_TRY(check_apart(memory_of(inputs), memory_of(outputs), callers_workspace(), takes_residual()));
  return enqueue_run(features, outputs, read_parameters(parameters), stream);
}

llvm::Error Execution::run_arrays(llvm::ArrayRef<GivenArray> inputs, llvm::ArrayRef<GivenArray> outputs,
                                  void* stream) {
  MINUET_TRY(check_prepared());
  MINUET_ASSIGN(const RunArrays arrays, read_arrays(inputs, outputs));
  MINUET_TRY(check_apart(arrays.read, arrays.written, callers_workspace(), takes_residual()));
  return enqueue_run(arrays.features, arrays.results, arrays.parameters, stream);
}

llvm::Expected<Execution::RunArrays> Execution::read_arrays(llvm::ArrayRef<GivenArray> inputs,
                                                            llvm::ArrayRef<GivenArray> outputs) const {
  MINUET_TRY(check_counts(inputs.size(), outputs.size()));
  RunArrays arrays;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    MINUET_TRY(check_on_device(input_name(i), inputs[i]));
    if (i < program_.inputs.size()) {
      MINUET_ASSIGN(const Tensor matrix, matrix_of(input_name(i), inputs[i], program_.inputs[i]));
      arrays.features.push_back(matrix);
      arrays.read.push_back(memory_of(matrix));
    } else {
      arrays.parameters.push_back({static_cast<i32>(i - program_.inputs.size()), inputs[i]});
      arrays.parameters.back().array.on_host = false;
      arrays.read.push_back(memory_of_array(inputs[i]));
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    MINUET_TRY(check_on_device(output_name(i), outputs[i]));
    const i32 tensor = program_.outputs[i];
    const bool is_dense = program_.tensors[tensor].is_dense();
    MINUET_ASSIGN(const Tensor matrix, is_dense ? matrix_of_dense(output_name(i), outputs[i], tensor)
                                                : matrix_of(output_name(i), outputs[i], tensor));
    arrays.results.push_back(matrix);
    arrays.written.push_back(memory_of(matrix));
  }
  MINUET_TRY(check_tensors(arrays.features, arrays.results));
  return arrays;
}

/// Returns InvalidArgument if the array is in host memory although the device is a GPU.
llvm::Error Execution::check_on_device(const std::string& what, const GivenArray& array) const {
  if (!array.on_host || loaded_->device->info().arch.empty()) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "{0} is in host memory (on_host), but a run takes device memory only: copy it first",
                    what);
}

/// Returns a dense array as a matrix whose rows are those of the last axis.
llvm::Expected<Tensor> Execution::matrix_of_dense(const std::string& what, const GivenArray& array,
                                                  i32 tensor) const {
  MINUET_TRY(check_element(what, array, static_cast<ElementType>(storage_type(program_.dtype))));
  const std::vector<i64>& dims = program_.tensors[tensor].dims;
  llvm::SmallVector<i64, kMaxArrayAxes> wanted{options_.cloud.batch_size};
  wanted.append(dims.begin(), dims.end());
  if (array.shape != wanted) {
    return make_error(StatusCode::InvalidArgument, "{0} has shape [{1}]; it must be [{2}]", what,
                      numbers_text(array.shape), numbers_text(wanted));
  }
  if (!is_contiguous(array)) {
    return make_error(StatusCode::InvalidArgument,
                      "{0} has strides [{1}], but a dense array must be contiguous: leave has_strides 0",
                      what, numbers_text(array.strides));
  }
  i64 rows = 1;
  for (std::size_t axis = 0; axis + 1 < wanted.size(); ++axis) rows *= wanted[axis];
  return Tensor{array.data, rows, wanted.back(), static_cast<i32>(wanted.back()), program_.dtype};
}

/// Returns the matrix that an array of features, outputs or winners is.
llvm::Expected<Tensor> Execution::matrix_of(const std::string& what, const GivenArray& array,
                                            i32 tensor) const {
  const auto element =
      holds_integers(tensor) ? ElementType::I32 : static_cast<ElementType>(storage_type(program_.dtype));
  MINUET_TRY(check_element(what, array, element));
  if (array.shape.size() != 2) {
    return make_error(StatusCode::InvalidArgument,
                      "{0} has a rank of {1}; it must be 2, for an array of rows and channels", what,
                      array.shape.size());
  }
  const i64 rows = array.shape[0], channels = array.shape[1];
  if (channels > 1 && array.strides[1] != 1) {
    return make_error(
        StatusCode::InvalidArgument,
        "{0} has a stride[1] of {1}; it must be 1, because the channels of a row are consecutive", what,
        array.strides[1]);
  }
  // The distance of rows means nothing if there are not two of them.
  return Tensor{array.data, rows, rows > 1 ? array.strides[0] : channels, static_cast<i32>(channels),
                holds_integers(tensor) ? kIntegerWords : program_.dtype};
}

llvm::Error Execution::enqueue_run(llvm::ArrayRef<Tensor> features, llvm::ArrayRef<Tensor> outputs,
                                   llvm::ArrayRef<ParameterValue> parameters, void* stream) {
  // The work that sets parameters must not be on another stream than the queue's.
  if (options_.queue) MINUET_TRY(options_.queue->check_stream(stream));
  if (options_.parameter_inputs) MINUET_TRY(parameter_set_->set(parameters, WeightsOrder::Minuet, stream));
  if (parameter_set_) MINUET_TRY(parameter_set_->check_complete());
  return call(stream, Timed::Run, [&] { return run_layers(features, outputs); });
}

/// Makes the ops write each output to the caller's memory if that serves as its storage.
void Execution::take_outputs(llvm::ArrayRef<Tensor> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_output_in_place(i)) continue;
    places_[program_.tensors[program_.outputs[i]].storage] = {static_cast<char*>(outputs[i].data),
                                                              outputs[i].ld};
  }
}

/// Copies an output to the caller's memory, in the caller's order of rows, if the ops did not write it there.
llvm::Error Execution::give_output(std::size_t number, const Tensor& given) {
  if (is_output_in_place(number)) return llvm::Error::success();
  const i32 tensor = program_.outputs[number];
  const Level& level = levels_[program_.tensors[tensor].level];
  // Integers of a row that does not exist are -1.
  const u32 padding = holds_integers(tensor) ? ~0u : 0;
  return engine_->permute_rows({permute_outputs_[number], address_of(tensor), ld_of(tensor), level.row_of,
                                level.caller_rows, given.data, given.ld, level.caller_count, padding});
}

/// Writes the batch index and the coordinates of the axes that a level has. In rows that do not exist, they
/// are zeros.
llvm::Error Execution::give_fewer_axes(i32 level, i32* coordinates) {
  const std::vector<i32> axes = axes_of(program_, level);
  const bool holds_items = program_.levels[level].holds_items;
  const i32* const all = holds_items ? network_maps_->identity() : network_maps_->coordinates();
  if (!holds_items) MINUET_TRY(network_maps_->unpack(level, network_maps_->coordinates()));
  PermuteRequest request{copy_axis_, all, holds_items ? 1 : 1 + program_.ndim};
  request.rows = levels_[level].rows;
  request.output = coordinates;
  request.output_ld = static_cast<i64>(1 + axes.size());
  request.count = levels_[level].count;
  MINUET_TRY(engine_->permute_rows(request));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    request.input = all + 1 + axes[i];
    request.output = coordinates + 1 + i;
    MINUET_TRY(engine_->permute_rows(request));
  }
  return llvm::Error::success();
}

llvm::Error Execution::output_coordinates(std::size_t output, i32* coordinates, void* stream) {
  if (!network_maps_) {
    return make_error(
        StatusCode::FailedPrecondition,
        "an execution of a single op has no coordinate sets: export those that its kernel map was made from");
  }
  MINUET_TRY(check_prepared());
  if (program_.tensors[program_.outputs[output]].is_dense()) {
    return make_error(StatusCode::FailedPrecondition,
                      "the output is a dense tensor, whose cells have no list of coordinates");
  }
  const i32 level = program_.output_level(output);
  const auto axes = static_cast<i32>(axes_of(program_, level).size());
  MINUET_TRY(check_coordinates(coordinates, output_rows(output), axes));
  return call(stream, Timed::Nothing, [&]() -> llvm::Error {
    if (axes < program_.ndim) return give_fewer_axes(level, coordinates);
    const i32 fields = 1 + program_.ndim;
    if (!levels_[level].row_of) {
      // If only the device knows the number of rows, the coordinates behind the last row become zeros.
      const bool may_be_fewer = has_capacities() || program_.levels[level].is_made_in_run();
      if (may_be_fewer) MINUET_TRY(engine_->fill_words(coordinates, 0, levels_[level].rows * fields));
      return network_maps_->unpack(level, coordinates);
    }
    MINUET_TRY(network_maps_->unpack(level, network_maps_->coordinates()));
    return engine_->permute_rows({permute_coordinates_, network_maps_->coordinates(), fields,
                                  levels_[level].row_of, levels_[level].caller_rows, coordinates, fields,
                                  levels_[level].caller_count});
  });
}

}  // namespace minuet
