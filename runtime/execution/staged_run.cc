// Runs the stages of a program one after the other.
#include <algorithm>

#include "codegen/choose/ops/points.h"
#include "llvm/ADT/ScopeExit.h"
#include "runtime/execution/execution_arrays.h"
#include "runtime/execution/staged_execution.h"

namespace minuet {

llvm::Error StagedExecution::call(void* stream, Timed timed, llvm::function_ref<llvm::Error()> work) {
  if (options_.queue) MINUET_TRY(options_.queue->check_stream(stream));
  engine_->time_as(timed);
  MINUET_TRY(engine_->begin(stream));
  // Engine::end() must run even if work() throws, because otherwise the engine would stay busy.
  auto end = llvm::make_scope_exit([&] { llvm::consumeError(engine_->end()); });
  const auto refuse_capture = [&]() -> llvm::Error {
    if (has_capacities() || !engine_->was_captured()) return llvm::Error::success();
    return make_error(
        StatusCode::FailedPrecondition,
        "the stream is being captured, but a run waits for the number of rows of each level that "
        "an op makes: create the execution with level_capacity");
  };
  llvm::Error error = refuse_capture();
  if (!error) error = work();
  end.release();
  return llvm::joinErrors(std::move(error), engine_->end());
}

/// Makes the arena large enough for the parts that `place` takes, and places them. In capacity mode, only
/// make_room() calls this function, because captured runs keep the addresses of the parts.
llvm::Error StagedExecution::reserve(Arena& arena, llvm::function_ref<void(Placement&)> place) {
  Placement measured(nullptr);
  place(measured);
  if (measured.bytes() > arena.bytes()) {
    // Earlier work may still use the old block.
    if (arena.data() && is_used_) MINUET_TRY(engine_->wait());
    MINUET_TRY(arena.reserve(measured.bytes(), has_capacities() ? 0 : slack_of(measured.bytes())));
  }
  Placement parts(arena.data(), /*idle=*/false);
  place(parts);
  return llvm::Error::success();
}

/// Returns true if the layer's input are the points that the network takes.
bool StagedExecution::reads_points(const Leading& leading) const {
  const i32 input = program_.layers[leading.layer].input;
  return program_.storages[program_.tensors[input].storage].holds_points;
}

/// Returns true if the layer makes the stage's root. It is then the first one that leads to the stage.
bool StagedExecution::makes_root(const Stage& stage, const Leading& leading) const {
  return program_.levels[stage.spec->root()].made_by == leading.layer;
}

/// Returns the sizes of the layer's input and output, which are upper bounds in capacity mode.
LeadingSizes StagedExecution::sizes_of(const Stage& stage, const Leading& leading) const {
  const i32 input = program_.layers[leading.layer].input;
  return {reads_points(leading) ? points_.most : left_of(input).value.matrix.rows, stage.root.capacity,
          options_.cloud.batch_size};
}

/// Reserves memory for the rows of a stage's root, and for the output of the layer that makes it, if that
/// layer writes both at once.
llvm::Error StagedExecution::reserve_root(Stage& stage) {
  if (stage.leading.empty() || !makes_root(stage, stage.leading.front())) return llvm::Error::success();
  Leading& maker = stage.leading.front();
  RootRows& root = stage.root;
  return reserve(stage.made, [&](Placement& parts) {
    const i64 sources = reads_points(maker) ? points_.most : root.capacity;
    root.coordinates = parts.take<i32>(root.capacity * (1 + program_.ndim));
    root.sources = stage.read.sources ? parts.take<i32>(sources) : nullptr;
    root.parents = stage.read.parents ? parts.take<i32>(root.capacity) : nullptr;
    if (!maker.family->makes_output(*maker.choice)) return;
    maker.output.rows = root.capacity;
    maker.output.data = parts.take<char>(root.capacity * maker.output.channels * dtype_bytes(program_.dtype));
  });
}

/// Reserves memory for the outputs of the layers that bring tensors onto the root, which has root.capacity
/// rows.
llvm::Error StagedExecution::reserve_loaded(Stage& stage) {
  return reserve(stage.loaded, [&](Placement& parts) {
    for (Leading& leading : stage.leading) {
      if (leading.family->makes_output(*leading.choice)) continue;
      leading.output.rows = stage.root.capacity;
      leading.output.data =
          parts.take<char>(stage.root.capacity * leading.output.channels * dtype_bytes(program_.dtype));
    }
  });
}

/// Reserves memory for the tensors that layers to other stages read.
llvm::Error StagedExecution::reserve_left(Stage& stage) {
  if (stage.left.empty()) return llvm::Error::success();
  return reserve(stage.left_memory, [&](Placement& parts) {
    for (Left& left : stage.left) {
      const i32 number = level_places_[program_.tensors[left.tensor].level].number;
      const Level& level = stage.execution->level(number);
      Tensor& matrix = left.value.matrix;
      if (!program_.tensors[left.tensor].is_dense()) matrix.rows = level.caller_rows;
      matrix.data = parts.take<char>(matrix.rows * matrix.channels * dtype_bytes(program_.dtype));
      left.coordinates =
          left.needs_coordinates ? parts.take<i32>(matrix.rows * (1 + program_.ndim)) : nullptr;
      left.value.coordinates = left.coordinates;
      left.value.count = !has_capacities() ? nullptr : level.caller_count ? level.caller_count : level.count;
    }
  });
}

llvm::Error StagedExecution::reserve_scratch(const Stage& stage) {
  return reserve(scratch_, [&](Placement& parts) {
    i64 bytes = 0;
    for (const Leading& leading : stage.leading) {
      bytes = std::max(bytes,
                       leading.family->workspace_bytes(*engine_, *leading.choice, sizes_of(stage, leading)));
    }
    // Another stage may need more.
    parts.skip(bytes);
  });
}

LeadingRequest StagedExecution::request_of(const Stage& stage, const Leading& leading) const {
  const ProgramLayer& layer = program_.layers[leading.layer];
  LeadingRequest request;
  request.choice = leading.choice;
  request.points = points_;
  request.batch_size = options_.cloud.batch_size;
  request.to = stage.root;
  request.output = leading.output;
  request.permute = leading.permute;
  request.workspace = scratch_.data();
  if (reads_points(leading)) return request;
  request.from = &stages_[stage_of(layer.input)]->root;
  request.inputs.push_back(left_of(layer.input).value);
  for (const i32 operand : layer.operands) {
    const auto mask = masks_.find(operand);
    request.inputs.push_back(mask == masks_.end() ? left_of(operand).value : LeadingInput{mask->second});
  }
  return request;
}

/// Makes the rows of a stage's root. In exact mode, the function waits for their number.
llvm::Error StagedExecution::make_root(Stage& stage) {
  const Leading& maker = stage.leading.front();
  const LeadingSizes sizes = sizes_of(stage, maker);
  if (maker.family->check) MINUET_TRY(maker.family->check(*maker.choice, sizes));
  if (!has_capacities()) {
    stage.root.capacity = maker.family->most_rows(*maker.choice, sizes);
    MINUET_TRY(reserve_root(stage));
    MINUET_TRY(reserve_scratch(stage));
  }
  MINUET_TRY(maker.family->make(*engine_, request_of(stage, maker)));
  if (has_capacities()) return llvm::Error::success();
  MINUET_TRY(engine_->read_back(host_words_, stage.root.count, (kPointCounts + 1) * kWordBytes));
  MINUET_TRY(engine_->wait());
  const u32 status = static_cast<u32>(host_words_[kPointCounts]);
  if ((status & kStatusOutOfBounds) != 0) {
    return make_error(StatusCode::OutOfRange,
                      "a batch index is {0} or more, but batch_size is {0}: correct the batch indices or the "
                      "batch_size",
                      options_.cloud.batch_size);
  }
  MINUET_TRY(check_coordinate_status(status));
  stage.root.capacity = host_words_[0];
  if (maker.family->makes_output(*maker.choice)) stage.leading.front().output.rows = stage.root.capacity;
  return llvm::Error::success();
}

/// Sets the number of points, which is 0 if an earlier stage has failed.
llvm::Error StagedExecution::count_points(std::size_t number) {
  RootRows& root = stages_[number]->root;
  root.capacity = points_.most;
  MINUET_TRY(points_.count ? engine_->copy(root.count, points_.count, kWordBytes)
                           : engine_->fill_words(root.count, static_cast<u32>(points_.most), 1));
  if (!has_capacities()) return llvm::Error::success();
  for (std::size_t i = 0; i < number; ++i) {
    const Stage& before = *stages_[i];
    MINUET_TRY(engine_->maps().void_failed(before.root.status, root.count, 1));
    MINUET_TRY(engine_->maps().void_failed(before.execution->cloud_state().status, root.count, 1));
  }
  points_.count = root.count;
  return llvm::Error::success();
}

/// Makes the rows of a stage's root, and brings tensors onto it.
llvm::Error StagedExecution::lead_to(std::size_t number) {
  Stage& stage = *stages_[number];
  if (program_.levels[stage.spec->root()].holds_points) {
    MINUET_TRY(count_points(number));
  } else {
    MINUET_TRY(make_root(stage));
  }
  if (!has_capacities()) {
    MINUET_TRY(reserve_loaded(stage));
    MINUET_TRY(reserve_scratch(stage));
  }
  for (const Leading& leading : stage.leading) {
    if (leading.family->makes_output(*leading.choice)) continue;
    MINUET_TRY(leading.family->load(*engine_, request_of(stage, leading)));
  }
  return llvm::Error::success();
}

llvm::Error StagedExecution::prepare_stage(Stage& stage, void* stream) {
  Execution& execution = *stage.execution;
  MINUET_TRY(execution.invalidate(/*for_maps=*/false));
  if (has_capacities()) return execution.prepare_within(stage.root.coordinates, stage.root.count, 0, stream);
  return execution.prepare(stage.root.coordinates, stage.root.capacity, stream);
}

llvm::Error StagedExecution::run_stage(Stage& stage, const Given& given, void* stream) {
  if (!stage.left.empty() && !has_capacities()) {
    MINUET_TRY(call(stream, Timed::Nothing, [&] { return reserve_left(stage); }));
  }
  const ProgramStage& spec = *stage.spec;
  std::vector<Tensor> inputs, outputs;
  auto leading = stage.leading.begin();
  for (const i32 number : spec.inputs)
    inputs.push_back(number >= 0 ? given.inputs[number] : (leading++)->output);
  auto left = stage.left.begin();
  std::optional<i32> short_output;
  for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
    const i32 number = spec.outputs[i];
    if (number < 0) {
      outputs.push_back((left++)->value.matrix);
      continue;
    }
    Tensor& output = outputs.emplace_back(given.outputs[number]);
    if (spec.program.tensors[spec.program.outputs[i]].is_dense()) continue;
    const i64 rows = stage.execution->output_rows(i);
    if (output.rows < rows) {
      // The loop goes on, so that the caller learns the numbers of all outputs of the stage at once.
      needed_rows_[static_cast<std::size_t>(number)] = rows;
      if (!short_output) short_output = number;
    }
    output.rows = rows;
  }
  if (short_output) {
    return make_error(StatusCode::InvalidArgument,
                      "output {0} has {1} rows, but this run needs {2}: give it at least {2} rows",
                      *short_output, given.outputs[*short_output].rows, needed_rows_[*short_output]);
  }
  MINUET_TRY(stage.execution->run_stage(inputs, outputs, stream));
  for (const Left& each : stage.left) {
    if (!each.coordinates || each.value.matrix.rows == 0) continue;
    MINUET_TRY(stage.execution->output_coordinates(each.output, each.coordinates, stream));
  }
  return llvm::Error::success();
}

llvm::Error StagedExecution::enqueue_stages(const Given& given, void* stream) {
  if (options_.parameter_inputs) {
    MINUET_TRY(parameter_set_->set(given.parameters, WeightsOrder::Minuet, stream));
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = *stages_[i];
    if (!is_callers(i)) {
      const Timed timed = i == 0 || is_callers(i - 1) ? Timed::Prepare : Timed::MoreOfPrepare;
      MINUET_TRY(call(stream, timed, [&] { return lead_to(i); }));
      MINUET_TRY(prepare_stage(stage, stream));
    }
    MINUET_TRY(run_stage(stage, given, stream));
  }
  if (!has_capacities()) return llvm::Error::success();
  return call(stream, Timed::Run, [&] { return join_clouds(stages_.size()); });
}

llvm::Error StagedExecution::enqueue(const Given& given, void* stream) {
  is_used_ = true;
  points_ = given.points;
  for (std::size_t i = 0; i < given.inputs.size(); ++i) {
    if (holds_mask(program_, program_.inputs[i])) masks_[program_.inputs[i]] = given.inputs[i];
  }
  // If a stage fails or throws, those before it are prepared for the new cloud already.
  auto forget = llvm::make_scope_exit([&] { llvm::consumeError(forget_run()); });
  MINUET_TRY(enqueue_stages(given, stream));
  forget.release();
  has_run_ = true;
  has_state_ |= has_capacities();
  may_replay_ |= engine_->was_captured();
  return llvm::Error::success();
}

/// Invalidates all that runs have made, so that no query answers with an earlier run's results. What a
/// captured run has made stays, because its replays make it anew without a call.
llvm::Error StagedExecution::forget_run() {
  if (may_replay_) return llvm::Error::success();
  has_run_ = false;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (!is_callers(i)) MINUET_TRY(stages_[i]->execution->invalidate(/*for_maps=*/false));
  }
  return llvm::Error::success();
}

llvm::Error StagedExecution::check_counts(std::size_t inputs, std::size_t outputs) const {
  const std::size_t features = program_.inputs.size(), wanted = program_.outputs.size();
  const std::size_t parameters = options_.parameter_inputs ? parameter_set_->parameters().size() : 0;
  // The batch indices and the number of points may be left out.
  const std::size_t optional = program_.takes_points() && parameters == 0 ? 2 : 0;
  const bool has_inputs = inputs <= features + parameters && inputs + optional >= features + parameters;
  if (has_inputs && outputs == wanted) return llvm::Error::success();
  const std::string least = optional > 0 ? std::to_string(features - optional) + " to " : "";
  const std::string also = parameters > 0 ? " and " + std::to_string(parameters) + " parameters" : "";
  return make_error(StatusCode::InvalidArgument,
                    "run takes {0}{1} inputs{2} and {3} outputs, but {4} and {5} are given", least, features,
                    also, wanted, inputs, outputs);
}

/// Reads an array of `words` words. It may be empty, which stands for none.
llvm::Error StagedExecution::read_words(const std::string& what, const GivenArray& array, i64 words,
                                        const i32*& read) const {
  i64 elements = 1;
  for (const i64 extent : array.shape) elements *= extent;
  if (elements == 0) return llvm::Error::success();
  if (array.element != ElementType::I32 || elements != words || !is_contiguous(array)) {
    return make_error(StatusCode::InvalidArgument,
                      "{0} has {1} elements of {2}; it must be a contiguous i32 array of {3}, or empty", what,
                      elements, element_name(array.element), words);
  }
  read = static_cast<const i32*>(array.data);
  return llvm::Error::success();
}

/// Reads an input that is not a parameter. The points come first.
llvm::Error StagedExecution::read_input(std::size_t number, const GivenArray& array, Given& given) const {
  const std::string what = input_name(number);
  const i32 tensor = program_.inputs[number];
  const StorageSpec& storage = program_.storages[program_.tensors[tensor].storage];
  const std::size_t batch = program_.inputs.size() - 2;
  if (storage.holds_mask) {
    MINUET_ASSIGN(const Tensor mask, read_mask(what, array, program_, tensor));
    given.inputs.push_back(mask);
    given.read.push_back(memory_of_array(array));
    return llvm::Error::success();
  }
  if (!storage.holds_integers) {
    MINUET_ASSIGN(const Tensor matrix, read_matrix(what, array, program_, tensor));
    given.inputs.push_back(matrix);
    given.read.push_back(memory_of(matrix));
    if (!storage.holds_points) return llvm::Error::success();
    MINUET_TRY(check_point_count(matrix.rows, "the number of points"));
    given.points.points = static_cast<const float*>(matrix.data);
    given.points.ld = matrix.ld;
    given.points.most = matrix.rows;
    return llvm::Error::success();
  }
  const i32*& words = number == batch ? given.points.batch : given.points.count;
  MINUET_TRY(read_words(what, array, number == batch ? given.points.most : 1, words));
  if (words) given.read.push_back(memory_of_array(array));
  given.inputs.emplace_back();
  if (!given.points.count || has_capacities()) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "{0} is the number of points on the device, which needs fixed capacities: create the "
                    "execution with level_capacity",
                    what);
}

llvm::Expected<StagedExecution::Given> StagedExecution::read_arrays(
    llvm::ArrayRef<GivenArray> inputs, llvm::ArrayRef<GivenArray> outputs) const {
  MINUET_TRY(check_counts(inputs.size(), outputs.size()));
  Given given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    MINUET_TRY(check_on_device(input_name(i), inputs[i], *loaded_->device));
    if (i < program_.inputs.size()) {
      MINUET_TRY(read_input(i, inputs[i], given));
      continue;
    }
    given.parameters.push_back({static_cast<i32>(i - program_.inputs.size()), inputs[i]});
    given.parameters.back().array.on_host = false;
    given.read.push_back(memory_of_array(inputs[i]));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    MINUET_TRY(check_on_device(output_name(i), outputs[i], *loaded_->device));
    MINUET_ASSIGN(const Tensor matrix, read_given(output_name(i), outputs[i], program_, program_.outputs[i],
                                                  options_.cloud.batch_size));
    given.outputs.push_back(matrix);
    given.written.push_back(memory_of(matrix));
  }
  return given;
}

/// Checks the shapes and the dtypes of the matrices. The number of rows of a level that an op makes is not
/// known yet in exact mode.
llvm::Error StagedExecution::check_given(const Given& given) const {
  const auto check = [&](const std::string& what, const Tensor& matrix, i32 tensor) -> llvm::Error {
    const i32 level = program_.tensors[tensor].level;
    Tensor wanted{nullptr, matrix.rows, 0, program_.tensors[tensor].channels, matrix_type(program_, tensor)};
    const bool is_of_points = program_.levels[level].holds_points;
    if (has_capacities() || (!is_of_points && level_places_[level].stage == 0 && !program_.takes_points())) {
      wanted.rows = this->level(level).caller_rows;
    } else if (is_of_points) {
      wanted.rows = given.points.most;
    }
    return check_tensor(what, matrix, wanted);
  };
  for (std::size_t i = 0; i < given.inputs.size(); ++i) {
    const i32 tensor = program_.inputs[i];
    const StorageSpec& storage = program_.storages[program_.tensors[tensor].storage];
    if (storage.holds_mask) MINUET_TRY(check_mask_rows(i, given.inputs[i], tensor));
    if (!storage.holds_integers && !storage.holds_mask)
      MINUET_TRY(check(input_name(i), given.inputs[i], tensor));
  }
  for (std::size_t i = 0; i < given.outputs.size(); ++i) {
    const i32 tensor = program_.outputs[i];
    if (program_.tensors[tensor].is_dense()) continue;
    MINUET_TRY(check(output_name(i), given.outputs[i], tensor));
  }
  return check_apart(given.read, given.written, {}, /*has_residual=*/false);
}

llvm::Error StagedExecution::run(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs,
                                 void* stream) {
  MINUET_TRY(forget_run());
  needed_rows_.clear();
  MINUET_TRY(check_matrices(program_));
  if (options_.parameter_inputs) {
    return make_error(StatusCode::FailedPrecondition,
                      "the execution takes parameters as inputs: use minuet_execution_run_arrays");
  }
  MINUET_TRY(check_counts(inputs.size(), outputs.size()));
  MINUET_TRY(stages_.front()->execution->check_prepared());
  Given given;
  given.inputs = inputs.vec();
  given.outputs = outputs.vec();
  given.read = memory_of(inputs);
  given.written = memory_of(outputs);
  MINUET_TRY(check_given(given));
  return enqueue(given, stream);
}

llvm::Error StagedExecution::run_arrays(llvm::ArrayRef<GivenArray> inputs, llvm::ArrayRef<GivenArray> outputs,
                                        void* stream) {
  MINUET_TRY(forget_run());
  needed_rows_.clear();
  if (!program_.takes_points()) MINUET_TRY(stages_.front()->execution->check_prepared());
  MINUET_ASSIGN(const Given given, read_arrays(inputs, outputs));
  MINUET_TRY(check_given(given));
  return enqueue(given, stream);
}

llvm::Error StagedExecution::read_points(llvm::MutableArrayRef<i32> counts, void* stream) {
  if (!program_.takes_points()) return stages_.front()->execution->read_points(counts, stream);
  MINUET_TRY(check_has_run());
  MINUET_TRY(call(stream, Timed::Nothing, [&]() -> llvm::Error {
    MINUET_TRY(engine_->read_back(host_words_, words_of(0), kPointCounts * kWordBytes));
    return engine_->wait();
  }));
  std::copy_n(host_words_, counts.size(), counts.begin());
  return llvm::Error::success();
}

/// Joins the status bits of the first stages, and collects the number of rows of each of their levels
/// (capacity mode). The other levels get 0 rows.
llvm::Error StagedExecution::join_clouds(std::size_t first_stages) {
  u32* const words = reinterpret_cast<u32*>(cloud_words());
  MINUET_TRY(engine_->fill_words(words, 0, 2 + static_cast<i64>(level_places_.size())));
  std::vector<JoinedWord> joined;
  for (const std::unique_ptr<Stage>& stage : llvm::ArrayRef(stages_).take_front(first_stages)) {
    const CloudWords cloud = stage->execution->cloud_state();
    const auto count = [&](std::size_t i) { return reinterpret_cast<const u32*>(cloud.counts + i); };
    joined.push_back({cloud.status, words});
    if (program_.levels[stage->spec->root()].is_made_in_run()) joined.push_back({stage->root.status, words});
    for (std::size_t i = 0; i < stage->spec->levels.size(); ++i) {
      const i32 level = stage->spec->levels[i];
      joined.push_back({count(1 + i), words + 2 + level});
      if (level == 0) joined.push_back({count(0), words + 1});
    }
  }
  return engine_->maps().join_words(joined);
}

llvm::Error StagedExecution::copy_cloud(u32* status, llvm::MutableArrayRef<i32> counts, void* stream) {
  MINUET_TRY(check_has_state());
  return call(stream, Timed::Nothing, [&]() -> llvm::Error {
    MINUET_TRY(engine_->copy(status, cloud_state().status, kWordBytes));
    return engine_->copy(counts.data(), cloud_state().counts, static_cast<i64>(counts.size()) * kWordBytes);
  });
}

llvm::Error StagedExecution::read_cloud(void* stream, u32& status, llvm::MutableArrayRef<i32> counts) {
  MINUET_TRY(check_has_state());
  const i64 words = 2 + static_cast<i64>(level_places_.size());
  MINUET_TRY(call(stream, Timed::Nothing, [&]() -> llvm::Error {
    MINUET_TRY(engine_->read_back(host_words_, cloud_words(), words * kWordBytes));
    return engine_->wait();
  }));
  status = static_cast<u32>(host_words_[0]);
  std::copy_n(host_words_ + 1, counts.size(), counts.begin());
  return llvm::Error::success();
}

}  // namespace minuet
