// Runs what is prepared, with matrices (run()) or arrays (run_arrays()) of the caller, and gives the
// coordinates of outputs.
#include "runtime/execution/execution.h"
#include "runtime/execution/execution_arrays.h"

namespace minuet {

llvm::Error Execution::run(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs, void* stream) {
  MINUET_TRY(check_prepared());
  MINUET_TRY(check_matrices(program_));
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
    if (program_.is_training_pass && inputs[i].data == nullptr) {
      arrays.features.push_back(wanted(program_.inputs[i]));
      continue;
    }
    MINUET_TRY(check_on_device(name_of_input(i), inputs[i], *loaded_->device));
    if (i < program_.inputs.size()) {
      MINUET_ASSIGN(const Tensor matrix, read_given(name_of_input(i), inputs[i], program_, program_.inputs[i],
                                                    options_.cloud.batch_size));
      arrays.features.push_back(matrix);
      arrays.read.push_back(memory_of(matrix));
    } else {
      arrays.parameters.push_back({static_cast<i32>(i - program_.inputs.size()), inputs[i]});
      arrays.parameters.back().array.on_host = false;
      arrays.read.push_back(memory_of_array(inputs[i]));
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    MINUET_TRY(check_on_device(name_of_output(i), outputs[i], *loaded_->device));
    MINUET_ASSIGN(const Tensor matrix, read_given(name_of_output(i), outputs[i], program_,
                                                  program_.outputs[i], options_.cloud.batch_size));
    arrays.results.push_back(matrix);
    arrays.written.push_back(memory_of(matrix));
  }
  MINUET_TRY(check_tensors(arrays.features, arrays.results));
  return arrays;
}

llvm::Error Execution::run_stage(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs,
                                 void* stream) {
  MINUET_TRY(check_prepared());
  return enqueue_run(inputs, outputs, {}, stream);
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
      if (has_capacities()) MINUET_TRY(engine_->fill_words(coordinates, 0, levels_[level].rows * fields));
      return network_maps_->unpack(level, coordinates);
    }
    MINUET_TRY(network_maps_->unpack(level, network_maps_->coordinates()));
    return engine_->permute_rows({permute_coordinates_, network_maps_->coordinates(), fields,
                                  levels_[level].row_of, levels_[level].caller_rows, coordinates, fields,
                                  levels_[level].caller_count});
  });
}

}  // namespace minuet
