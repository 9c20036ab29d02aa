#include "runtime/execution/staged_execution.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "runtime/execution/execution_arrays.h"
#include "runtime/program/stages.h"

namespace minuet {

StagedExecution::StagedExecution(std::shared_ptr<const LoadedPlan> loaded, const ExecutionOptions& options)
    : loaded_(std::move(loaded)),
      program_(loaded_->plan->program),
      compiled_(*loaded_->compiled),
      options_(options),
      memory_(options.queue ? options.queue->memory() : std::shared_ptr<MemorySource>(loaded_->device)),
      parameter_set_(options.parameters),
      scratch_(memory_),
      level_places_(program_.levels.size()),
      layer_places_(program_.layers.size()) {}

llvm::Expected<std::unique_ptr<PlanExecution>> PlanExecution::create(std::shared_ptr<const LoadedPlan> loaded,
                                                                     const ExecutionOptions& options) {
  if (!has_stages(loaded->plan->program)) return Execution::create(std::move(loaded), options);
  return StagedExecution::create(std::move(loaded), options);
}

llvm::Expected<std::unique_ptr<StagedExecution>> StagedExecution::create(
    std::shared_ptr<const LoadedPlan> loaded, const ExecutionOptions& options) {
  MINUET_TRY(Execution::check_parameters(*loaded, options));
  if (options.has_callers_memory) {
    return make_error(StatusCode::InvalidArgument,
                      "the network makes levels in each run, and its execution allocates their memory: leave "
                      "workspace null and defer_workspace 0");
  }
  std::unique_ptr<StagedExecution> execution(new StagedExecution(std::move(loaded), options));
  StagedExecution& made = *execution;
  MINUET_ASSIGN(made.engine_, made.loaded_->device->create_engine(
                                  made.compiled_.engine, options.queue ? options.queue->share() : nullptr));
  if (options.parameter_inputs) {
    MINUET_ASSIGN(made.parameter_set_, ParameterSet::create(made.loaded_, {.is_set_by_each_run = true}));
  }
  MINUET_TRY(made.add_stages());
  const i64 words = 2 + static_cast<i64>(made.level_places_.size() + made.stages_.size() * kStageWords);
  MINUET_ASSIGN(made.words_, DeviceMemory::create(made.memory_, words * kWordBytes));
  MINUET_TRY(made.loaded_->device->clear(made.words_.data(), words * kWordBytes));
  MINUET_ASSIGN(void* const host, made.engine_->allocate_pinned(words * kWordBytes));
  made.host_words_ = static_cast<i32*>(host);
  for (std::size_t i = 0; i < made.stages_.size(); ++i) {
    RootRows& root = made.stages_[i]->root;
    root.count = made.words_of(i);
    root.status = reinterpret_cast<u32*>(root.count + kPointCounts);
  }
  if (made.has_capacities()) MINUET_TRY(made.make_room());
  return execution;
}

i32* StagedExecution::cloud_words() const { return reinterpret_cast<i32*>(words_.data()); }

i32* StagedExecution::words_of(std::size_t stage) const {
  return cloud_words() + 2 + level_places_.size() + stage * kStageWords;
}

llvm::Error StagedExecution::add_stages() {
  for (std::size_t i = 0; i < compiled_.stages.size(); ++i) {
    Stage& stage = *stages_.emplace_back(std::make_unique<Stage>(memory_));
    stage.spec = &compiled_.stages[i].stage;
    const auto number = static_cast<i32>(i);
    const auto place = [&](const std::vector<i32>& numbers, std::vector<Place>& places) {
      for (std::size_t at = 0; at < numbers.size(); ++at)
        places[numbers[at]] = {number, static_cast<i32>(at)};
    };
    place(stage.spec->levels, level_places_);
    place(stage.spec->layers, layer_places_);
    llvm::Expected<std::unique_ptr<Execution>> execution =
        Execution::create(LoadedPlan::of_stage(loaded_, i), options_of(*stage.spec));
    if (!execution) return execution.takeError();
    stage.execution = std::move(*execution);
  }
  for (const std::unique_ptr<Stage>& stage : stages_) MINUET_TRY(add_leading(*stage));
  for (const std::unique_ptr<Stage>& stage : stages_) add_left(*stage);
  find_read_arrays();
  return llvm::Error::success();
}

/// Returns the options of the execution of a stage. Bounds that the caller declares hold for the coordinates
/// that the caller gives, and for voxels.
ExecutionOptions StagedExecution::options_of(const ProgramStage& stage) const {
  ExecutionOptions options = options_;
  const LevelSpec& root = program_.levels[stage.root()];
  options.parameters = parameter_set_;
  options.parameter_inputs = false;
  const auto take_levels = [&](std::vector<i64> NetworkMapOptions::*numbers) {
    const std::vector<i64>& of_network = options_.cloud.*numbers;
    std::vector<i64>& of_stage = options.cloud.*numbers;
    of_stage.clear();
    for (const i32 level : stage.levels) {
      if (!of_network.empty()) of_stage.push_back(of_network[level]);
    }
  };
  take_levels(&NetworkMapOptions::level_capacity);
  take_levels(&NetworkMapOptions::level_slots);
  options.cloud.level_numbers = stage.levels;
  if (root.holds_points) {
    options.cloud.batch_size = 0;
    options.cloud.has_bounds = false;
  }
  if (!root.is_made_in_run()) return options;
  options.max_points = 0;
  options.cloud.keep_first_duplicate = false;
  if (program_.takes_points() && stage.root() == 1) return options;
  options.cloud.has_bounds = false;
  constexpr i32 kWideKey = 64;
  if (has_capacities() && options.cloud.key_bits == 0) options.cloud.key_bits = kWideKey;
  return options;
}

llvm::Error StagedExecution::add_leading(Stage& stage) {
  for (const i32 number : stage.spec->leading) {
    Leading& leading = stage.leading.emplace_back();
    leading.layer = number;
    leading.choice = &compiled_.candidates[number].front().choice;
    MINUET_ASSIGN(leading.family, find_leading_family(*leading.choice));
    if (leading.family->gather) {
      if (const auto gather = leading.family->gather(*leading.choice)) {
        MINUET_ASSIGN(leading.permute, engine_->add_permute_rows(*gather));
      }
    }
    const i32 channels = program_.tensors[program_.layers[number].output].channels;
    leading.output = {nullptr, 0, channels, channels, program_.dtype};
  }
  return llvm::Error::success();
}

/// Finds the arrays of each root that layers read.
void StagedExecution::find_read_arrays() {
  for (const std::unique_ptr<Stage>& stage : stages_) {
    for (const Leading& leading : stage->leading) {
      if (!leading.family->reads) continue;
      const RootArrays arrays = leading.family->reads(*leading.choice);
      const bool leads_to_points = program_.levels[stage->spec->root()].holds_points;
      Stage& read = leads_to_points ? *stages_[stage_of(program_.layers[leading.layer].input)] : *stage;
      read.read.sources |= arrays.sources;
      read.read.parents |= arrays.parents;
    }
  }
}

/// Returns a dense tensor as a matrix whose rows are those of its last axis.
Tensor StagedExecution::dense_matrix(llvm::ArrayRef<i64> dims) const {
  const auto columns = static_cast<i32>(dims.back());
  i64 rows = options_.cloud.batch_size;
  for (const i64 extent : dims.drop_back()) rows *= extent;
  return {nullptr, rows, columns, columns, program_.dtype};
}

/// Lists the tensors that the stage leaves to layers between stages.
void StagedExecution::add_left(Stage& stage) {
  const ProgramStage& spec = *stage.spec;
  for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
    if (spec.outputs[i] >= 0) continue;
    Left& left = stage.left.emplace_back();
    left.tensor = spec.tensors[spec.program.outputs[i]];
    left.output = i;
    const TensorSpec& tensor = program_.tensors[left.tensor];
    left.value.matrix = {nullptr, 0, tensor.channels, tensor.channels, program_.dtype};
    if (tensor.is_dense()) left.value.matrix = dense_matrix(tensor.dims);
    for (const std::unique_ptr<Stage>& other : stages_) {
      for (const Leading& leading : other->leading) {
        const bool reads = program_.layers[leading.layer].input == left.tensor;
        left.needs_coordinates |= reads && leading.family->reads_coordinates(*leading.choice);
      }
    }
  }
}

const StagedExecution::Left& StagedExecution::left_of(i32 tensor) const {
  const std::vector<Left>& left = stages_[stage_of(tensor)]->left;
  return *llvm::find_if(left, [&](const Left& each) { return each.tensor == tensor; });
}

/// Reserves all memory that a cloud within the capacities may need.
llvm::Error StagedExecution::make_room() {
  points_.most = options_.cloud.level_capacity.front();
  for (const std::unique_ptr<Stage>& stage : stages_) {
    stage->root.capacity = options_.cloud.level_capacity[stage->spec->root()];
    MINUET_TRY(reserve_left(*stage));
    MINUET_TRY(reserve_root(*stage));
    MINUET_TRY(reserve_loaded(*stage));
  }
  for (const std::unique_ptr<Stage>& stage : stages_) MINUET_TRY(reserve_scratch(*stage));
  return llvm::Error::success();
}

llvm::Error StagedExecution::check_takes(bool maps) const {
  if (program_.takes_points()) {
    return make_error(
        StatusCode::FailedPrecondition,
        "the network makes its coordinates of the points that run takes, so there is nothing to "
        "prepare: call minuet_execution_run_arrays");
  }
  return stages_.front()->execution->check_takes(maps);
}

llvm::Error StagedExecution::invalidate(bool for_maps) {
  MINUET_TRY(check_takes(for_maps));
  MINUET_TRY(forget_run());
  needed_rows_.clear();
  return stages_.front()->execution->invalidate(for_maps);
}

/// Prepares the stage of the caller's coordinates. In capacity mode, the levels that a run makes have no rows
/// in the state of the cloud until the next run.
llvm::Error StagedExecution::prepare_first(void* stream,
                                           llvm::function_ref<llvm::Error(Execution&)> prepare) {
  Execution& first = *stages_.front()->execution;
  MINUET_TRY(prepare(first));
  if (!has_capacities()) return llvm::Error::success();
  if (llvm::Error error = call(stream, Timed::Nothing, [&] { return join_clouds(1); }))
    return llvm::joinErrors(std::move(error), first.invalidate(/*for_maps=*/false));
  has_state_ = true;
  return llvm::Error::success();
}

llvm::Error StagedExecution::prepare(const i32* coordinates, i64 count, void* stream) {
  return prepare_first(stream, [&](Execution& first) { return first.prepare(coordinates, count, stream); });
}

llvm::Error StagedExecution::prepare_within(const i32* coordinates, const i32* given_count, i64 most,
                                            void* stream) {
  return prepare_first(
      stream, [&](Execution& first) { return first.prepare_within(coordinates, given_count, most, stream); });
}

bool StagedExecution::knows_level(i32 level) const {
  if (is_callers_level(level)) return stages_.front()->execution->is_prepared();
  return has_run_ || has_capacities();
}

llvm::Error StagedExecution::check_output(std::size_t output) const {
  if (knows_level(program_.output_level(output)) || needed_rows_.count(output) != 0)
    return llvm::Error::success();
  return make_error(
      StatusCode::FailedPrecondition,
      "the number of rows of output {0} is known after a run, because an op makes its level: run "
      "first, with an array that has room for all rows",
      output);
}

const StagedExecution::Level& StagedExecution::level(i32 level) const {
  const Place& place = level_places_[level];
  return stages_[place.stage]->execution->level(place.number);
}

llvm::Error StagedExecution::output_coordinates(std::size_t output, i32* coordinates, void* stream) {
  MINUET_TRY(check_output(output));
  const i32 level = program_.output_level(output);
  if (!is_callers_level(level)) MINUET_TRY(check_has_run());
  if (program_.levels[level].holds_points) {
    return make_error(
        StatusCode::FailedPrecondition,
        "output {0} has a row for each point, in the order of the points, and no coordinates of "
        "voxels",
        output);
  }
  Stage& stage = *stages_[level_places_[level].stage];
  const auto found = llvm::find(stage.spec->outputs, static_cast<i32>(output));
  return stage.execution->output_coordinates(static_cast<std::size_t>(found - stage.spec->outputs.begin()),
                                             coordinates, stream);
}

/// Returns FailedPrecondition if nothing has written the state of a cloud. A run that is refused changes
/// nothing on the device, so the state of the last prepare or run can still be read.
llvm::Error StagedExecution::check_has_state() const {
  if (has_state_) return llvm::Error::success();
  return program_.takes_points() ? check_has_run() : stages_.front()->execution->check_prepared();
}

/// Returns FailedPrecondition if no run has succeeded since the last prepare, or if a later run has failed,
/// unless a captured run may have been replayed since.
llvm::Error StagedExecution::check_has_run() const {
  if (has_run_) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "an op makes levels of the network in each run, and no run has made those of this cloud: "
                    "run the network first");
}

/// Checks the number of rows of a mask, which lies on a level of the first stage.
llvm::Error StagedExecution::check_mask_rows(std::size_t number, const Tensor& mask, i32 tensor) const {
  const i64 rows = level(program_.tensors[tensor].level).caller_rows;
  if (mask.rows == rows && (mask.data || rows == 0)) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} has {1} rows{2}; it must have {3}", input_name(number),
                    mask.rows, mask.data ? "" : " and is null", rows);
}

llvm::Expected<i32> StagedExecution::find_overflow(void* stream) {
  if (!program_.takes_points()) MINUET_TRY(stages_.front()->execution->check_prepared());
  MINUET_TRY(check_has_run());
  i32 first = -1;
  for (const std::unique_ptr<Stage>& stage : stages_) {
    MINUET_ASSIGN(const i32 found, stage->execution->find_overflow(stream));
    if (found < 0) continue;
    const i32 layer = stage->spec->layers[found];
    first = first < 0 ? layer : std::min(first, layer);
  }
  return first;
}

void StagedExecution::set_trace(Trace* trace) {
  for (const std::unique_ptr<Stage>& stage : stages_) stage->execution->set_trace(trace);
}

std::optional<MapMethod> StagedExecution::find_map_method() const {
  return stages_.front()->execution->find_map_method();
}

llvm::Expected<i64> StagedExecution::layer_pairs(i32 layer) {
  const Place& place = layer_places_[layer];
  if (place.stage < 0) return 0;
  return stages_[place.stage]->execution->layer_pairs(place.number);
}

llvm::Expected<StageTimes> StagedExecution::query_times() {
  MINUET_ASSIGN(const PassTimes own, engine_->pass_times());
  StageTimes times = own.all;
  for (const std::unique_ptr<Stage>& stage : stages_) {
    MINUET_ASSIGN(const StageTimes of_stage, stage->execution->query_times());
    times += of_stage;
  }
  return times;
}

StageTimes StagedExecution::layer_times(i32 layer) const {
  const Place& place = layer_places_[layer];
  return place.stage < 0 ? StageTimes{} : stages_[place.stage]->execution->layer_times(place.number);
}

const Candidate* StagedExecution::selected(i32 layer) const {
  const Place& place = layer_places_[layer];
  if (place.stage >= 0) return stages_[place.stage]->execution->selected(place.number);
  return has_run_ ? &compiled_.candidates[layer].front() : nullptr;
}

OpReport StagedExecution::layer_report(i32 layer) const {
  const Place& place = layer_places_[layer];
  return place.stage < 0 ? OpReport{} : stages_[place.stage]->execution->layer_report(place.number);
}

llvm::Error StagedExecution::set_workspace(void* /*workspace*/, i64 /*bytes*/, void* /*stream*/) {
  return make_error(StatusCode::FailedPrecondition,
                    "the network makes levels in each run, and its execution allocates their memory itself");
}

void StagedExecution::release_captures() {
  may_replay_ = false;
  for (const std::unique_ptr<Stage>& stage : stages_) stage->execution->release_captures();
}

i64 StagedExecution::workspace_bytes() const {
  i64 bytes = words_.bytes() + scratch_.bytes();
  for (const std::unique_ptr<Stage>& stage : stages_) {
    bytes += stage->made.bytes() + stage->loaded.bytes() + stage->left_memory.bytes() +
             stage->execution->workspace_bytes();
  }
  return bytes;
}

i64 StagedExecution::needed_bytes() const {
  i64 bytes = words_.bytes() + scratch_.bytes();
  for (const std::unique_ptr<Stage>& stage : stages_) {
    bytes += stage->made.bytes() + stage->loaded.bytes() + stage->left_memory.bytes() +
             stage->execution->needed_bytes();
  }
  return bytes;
}

void StagedExecution::set_profiling(bool on) {
  engine_->set_profiling(on);
  for (const std::unique_ptr<Stage>& stage : stages_) stage->execution->set_profiling(on);
}

EngineCounters StagedExecution::counters() const {
  EngineCounters all = engine_->counters();
  const auto add = [&](const EngineCounters& more) {
    all.kernels += more.kernels, all.copies += more.copies, all.fills += more.fills;
    all.matmuls += more.matmuls, all.host_syncs += more.host_syncs;
    all.allocations += more.allocations, all.gemm_lookups += more.gemm_lookups;
  };
  all.allocations += scratch_.growths();
  for (const std::unique_ptr<Stage>& stage : stages_) {
    add(stage->execution->counters());
    all.allocations += stage->made.growths() + stage->loaded.growths() + stage->left_memory.growths();
  }
  return all;
}

void StagedExecution::reset_counters() {
  engine_->reset_counters();
  scratch_.reset_growths();
  for (const std::unique_ptr<Stage>& stage : stages_) {
    stage->execution->reset_counters();
    for (Arena* const arena : {&stage->made, &stage->loaded, &stage->left_memory}) arena->reset_growths();
  }
}

llvm::Error StagedExecution::suggest_capacities(double factor, llvm::MutableArrayRef<i64> rows) const {
  if (has_capacities()) {
    return make_error(
        StatusCode::FailedPrecondition,
        "this execution cannot suggest capacities: use one that was created without level_capacity");
  }
  MINUET_TRY(check_has_run());
  if (rows.size() != level_places_.size()) {
    return make_error(StatusCode::InvalidArgument,
                      "level_count is {0}; it must be {1}, because each level of the plan gets a capacity",
                      rows.size(), level_places_.size());
  }
  for (const std::unique_ptr<Stage>& stage : stages_) {
    std::vector<i64> of_stage(stage->spec->levels.size());
    MINUET_TRY(stage->execution->suggest_capacities(factor, of_stage));
    for (std::size_t i = 0; i < of_stage.size(); ++i) rows[stage->spec->levels[i]] = of_stage[i];
  }
  return llvm::Error::success();
}

llvm::Error StagedExecution::count_superblocks(llvm::MutableArrayRef<i64> counts, void* stream) {
  MINUET_TRY(check_has_run());
  for (const std::unique_ptr<Stage>& stage : stages_) {
    std::vector<i64> of_stage(stage->spec->levels.size());
    MINUET_TRY(stage->execution->count_superblocks(of_stage, stream));
    for (std::size_t i = 0; i < of_stage.size(); ++i) counts[stage->spec->levels[i]] = of_stage[i];
  }
  return llvm::Error::success();
}

}  // namespace minuet
