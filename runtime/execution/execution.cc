#include "runtime/execution/execution.h"

#include <algorithm>
#include <numeric>

#include "llvm/ADT/ScopeExit.h"
#include "runtime/engine/alignment.h"
#include "runtime/engine/nvtx.h"
#include "runtime/maps/coordinate_limits.h"

namespace minuet {

Execution::Execution(std::shared_ptr<const LoadedPlan> loaded, const ExecutionOptions& options)
    : loaded_(std::move(loaded)),
      program_(loaded_->plan->program),
      compiled_(*loaded_->compiled),
      options_(options),
      parameter_set_(options.parameters),
      memory_(options.queue ? options.queue->memory() : std::shared_ptr<MemorySource>(loaded_->device),
              {options.queue, !program_.takes_maps}),
      levels_(program_.levels.size()),
      maps_(program_.maps.size()),
      runners_(program_.layers.size()),
      storages_(program_.storages.size()),
      tops_(program_.storages.size()),
      holds_output_(program_.storages.size()),
      places_(program_.storages.size()) {
  for (const i32 output : program_.outputs) holds_output_[program_.tensors[output].storage] = true;
}

llvm::Expected<std::unique_ptr<Execution>> Execution::create_unplaced(
    std::shared_ptr<const LoadedPlan> loaded, const ExecutionOptions& given) {
  ExecutionOptions options = given;
  MINUET_TRY(limit_coordinates(loaded->plan->program, options.cloud));
  std::unique_ptr<Execution> execution(new Execution(std::move(loaded), options));
  MINUET_ASSIGN(execution->engine_,
                execution->loaded_->device->create_engine(execution->compiled_.engine,
                                                          options.queue ? options.queue->share() : nullptr));
  MINUET_TRY(execution->check_item_capacity());
  MINUET_TRY(execution->add_layers());
  MINUET_TRY(execution->make_works());
  execution->add_memory();
  if (execution->program_.takes_maps) return execution;
  execution->network_maps_.emplace(execution->program_, options.cloud, *execution->engine_,
                                   *execution->views_);
  MINUET_TRY(execution->network_maps_->check_count(options.max_points));
  MINUET_TRY(execution->check_capacities());
  return execution;
}

llvm::Expected<std::unique_ptr<Execution>> Execution::create(std::shared_ptr<const LoadedPlan> loaded,
                                                             const ExecutionOptions& options) {
  MINUET_TRY(check_parameters(*loaded, options));
  MINUET_ASSIGN(std::unique_ptr<Execution> execution, create_unplaced(std::move(loaded), options));
  Execution& made = *execution;
  if (options.parameter_inputs) {
    MINUET_ASSIGN(made.parameter_set_, ParameterSet::create(made.loaded_, {.is_set_by_each_run = true}));
    for (const PlanParameter& parameter : made.parameter_set_->parameters()) {
      made.parameter_names_.push_back("the input for parameter \"" + parameter.name + "\"");
    }
  }
  for (const Work& work : made.works_) MINUET_TRY(work.work->allocate_host());
  MINUET_ASSIGN(void* overflow, made.engine_->allocate_pinned(made.layer_count() * kWordBytes));
  made.host_overflow_ = static_cast<u32*>(overflow);
  if (made.network_maps_) MINUET_TRY(made.network_maps_->allocate_host());
  if (options.has_callers_memory) made.memory_.use_workspace(options.workspace, options.workspace_bytes);
  void* const stream = options.queue ? options.queue->stream() : nullptr;
  MINUET_TRY(made.call(stream, Timed::Nothing, [&]() -> llvm::Error {
    if (made.network_maps_) MINUET_TRY(made.refuse_capture());
    return made.take_memory();
  }));
  return execution;
}

/// Returns InvalidArgument if the capacity of the level of batch items is smaller than the batch.
llvm::Error Execution::check_item_capacity() const {
  const std::vector<i64>& capacities = options_.cloud.level_capacity;
  if (!has_capacities() || !program_.levels.back().holds_items) return llvm::Error::success();
  if (capacities.back() >= options_.cloud.batch_size) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "level_capacity[{0}] is {1}, but this level has a row for each of the {2} batch items: "
                    "set it to {2} or more",
                    options_.cloud.number_of(capacities.size() - 1), capacities.back(),
                    options_.cloud.batch_size);
}

/// Returns OutOfRange if a level has a capacity of more rows than a cloud may have.
llvm::Error Execution::check_capacities() const {
  const std::vector<i64>& capacities = options_.cloud.level_capacity;
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    llvm::Error error = network_maps_->check_count(capacities[i]);
    if (!error) continue;
    const i32 number = options_.cloud.number_of(i);
    return annotate(std::move(error), "level_capacity[" + std::to_string(number) + "]");
  }
  return llvm::Error::success();
}

llvm::Error Execution::add_layers() {
  for (std::size_t i = 0; i < program_.layers.size(); ++i) {
    std::vector<i32>& ops = ops_.emplace_back();
    for (const Candidate& candidate : compiled_.candidates[i]) {
      if (!may_run(candidate)) {
        ops.push_back(-1);
        continue;
      }
      llvm::Expected<i32> number = engine_->add_op(candidate.choice);
      if (!number) return annotate(number.takeError(), program_.layers[i].name);
      ops.push_back(*number);
      op_count_ = *number + 1;
    }
    selected_.push_back(-1);
  }
  for (const PermuteRowsSpec& spec : compiled_.permute_inputs) {
    MINUET_ASSIGN(const i32 number, engine_->add_permute_rows(spec));
    permute_inputs_.push_back(number);
  }
  for (const PermuteRowsSpec& spec : compiled_.permute_outputs) {
    MINUET_ASSIGN(const i32 number, engine_->add_permute_rows(spec));
    permute_outputs_.push_back(number);
  }
  MINUET_ASSIGN(permute_coordinates_, engine_->add_permute_rows(compiled_.permute_coordinates));
  if (compiled_.copy_axis) {
    MINUET_ASSIGN(copy_axis_, engine_->add_permute_rows(*compiled_.copy_axis));
  }
  return llvm::Error::success();
}

llvm::Error Execution::call(void* stream, Timed timed, llvm::function_ref<llvm::Error()> work) {
  if (options_.queue) MINUET_TRY(options_.queue->check_stream(stream));
  engine_->time_as(timed);
  MINUET_TRY(engine_->begin(stream));
  // Engine::end() must run even if work() throws, because otherwise the engine would stay busy.
  auto end = llvm::make_scope_exit([&] { llvm::consumeError(engine_->end()); });
  llvm::Error error = work();
  end.release();
  error = llvm::joinErrors(std::move(error), engine_->end());
  // If the options give capacities, prepare and copy_cloud() may be captured while nothing is prepared.
  if ((is_prepared() || has_capacities()) && engine_->was_captured()) captured_.add();
  return error;
}

/// Returns FailedPrecondition if the stream is being captured, because every replay would repeat the work of
/// prepare. If the options give capacities, prepare may be captured too, and this function is not called.
llvm::Error Execution::refuse_capture() const {
  if (!engine_->was_captured()) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "the stream is being captured: prepare before the capture, which may contain only runs");
}

llvm::Error Execution::check_takes(bool maps) const {
  if (maps != program_.takes_maps) {
    return maps ? make_error(StatusCode::FailedPrecondition,
                             "this is the execution of a network, which builds its kernel maps itself: use "
                             "prepare")
                : make_error(StatusCode::FailedPrecondition,
                             "this is the execution of a single op, which takes kernel maps from the "
                             "caller: use prepare_maps");
  }
  return llvm::Error::success();
}

llvm::Error Execution::invalidate(bool for_maps) {
  MINUET_TRY(check_takes(for_maps));
  if (is_prepared()) prepared_ = Prepared::Outdated;
  return llvm::Error::success();
}

llvm::Error Execution::prepare(const i32* coordinates, i64 count, void* stream) {
  if (has_capacities()) return prepare_within(coordinates, nullptr, count, stream);
  MINUET_TRY(network_maps_->check_count(count));
  MINUET_TRY(check_coordinates(coordinates, count, program_.ndim));
  MINUET_TRY(call(stream, Timed::Prepare, [&]() -> llvm::Error {
    MINUET_TRY(refuse_capture());
    MINUET_TRY(keep_captured());
    bool idle = false;
    MINUET_TRY(ensure_capacity(std::max<i64>(count, 1), idle));
    for (bool fits = false; !fits;) {
      MINUET_TRY(network_maps_->build(coordinates, count));
      // NetworkMaps::build() has waited for the device, so no work in progress uses the arena.
      idle = true;
      if (network_maps_->needs_room()) {
        MINUET_TRY(renew_capacity(idle));
        continue;
      }
      take_cloud(count);
      MINUET_TRY(select_candidates());
      MINUET_TRY(add_work());
      memory_.measure_cloud();
      fits = memory_.fits();
      // Growing the arena loses the maps, so the loop then builds them again.
      if (!fits) MINUET_TRY(reserve(memory_.cloud_slack(), idle));
    }
    MINUET_TRY(place_cloud(idle));
    MINUET_TRY(prepare_layers());
    return views_->make_views();
  }));
  prepared_ = Prepared::Ready;
  return llvm::Error::success();
}

void Execution::take_cloud(i64 count) {
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const i64 rows = network_maps_->rows(static_cast<i32>(i));
    levels_[i] = {rows,    rows,    network_maps_->count(static_cast<i32>(i)), nullptr,
                  nullptr, nullptr, program_.levels[i].tensor_stride};
  }
  levels_[0].caller_rows = count;
  take_callers_rows();
  for (std::size_t i = 0; i < maps_.size(); ++i) maps_[i] = network_maps_->map(static_cast<i32>(i));
}

void Execution::take_callers_rows() {
  if (program_.levels.front().holds_points) return;  // Points have one order only.
  levels_[0].caller_count = network_maps_->counts();
  levels_[0].source_row = network_maps_->source_row();
  levels_[0].row_of = network_maps_->row_of();
}

i64 Execution::most_rows() const {
  i64 rows = 0;
  for (const Level& level : levels_) rows = std::max(rows, level.rows);
  return rows;
}

/// Returns the number of pairs of each offset, in host memory.
llvm::Expected<const i32*> Execution::counts_of(i32 map) {
  if (network_maps_) return network_maps_->pairs(map);
  if (!caller_maps_[map]->has_counts()) ++map_waits_;
  MINUET_ASSIGN(const llvm::ArrayRef<i32> counts, caller_maps_[map]->counts());
  return counts.data();
}

llvm::Expected<i64> Execution::pairs_of(i32 map) {
  MINUET_ASSIGN(const i32* const counts, counts_of(map));
  return std::accumulate(counts, counts + maps_[map].geometry.volume, i64{0});
}

llvm::Expected<StageTimes> Execution::query_times() {
  MINUET_ASSIGN(PassTimes times, engine_->pass_times());
  op_times_ = std::move(times.ops);
  return times.all;
}

StageTimes Execution::layer_times(i32 layer) const {
  if (selected_[layer] < 0) return {};
  const i32 op = op_of(layer);
  return op >= 0 && op < static_cast<i32>(op_times_.size()) ? op_times_[op] : StageTimes{};
}

OpReport Execution::layer_report(i32 layer) const {
  // The report of a kernel that computes several layers is that of the first of them.
  if (!is_prepared() || is_covered(layer)) return {};
  return work_of(candidate_of(layer)).report(layer);
}

llvm::Expected<i64> Execution::layer_pairs(i32 layer) {
  if (!is_prepared() || has_capacities()) return 0;
  const i32 map = program_.layers[layer].map;
  return map < 0 ? 0 : pairs_of(map);
}

/// Returns the number of rows by which the kernel of a layer (Candidate) is selected. A cloud usually has
/// fewer rows than the capacities allow, so a quarter of the capacity is assumed to be unused.
i64 Execution::likely_rows(i32 tensor) const {
  const i64 rows = rows_of(tensor);
  return has_capacities() ? likely_rows_within(rows) : rows;
}

llvm::Error Execution::select_candidates() {
  for (std::size_t i = 0; i < selected_.size(); ++i) {
    const ProgramLayer& layer = program_.layers[i];
    const std::vector<Candidate>& candidates = compiled_.candidates[i];
    if (candidates.empty()) continue;
    const i64 outputs = rows_of(layer.output);
    // The density (pairs per output row) stays unknown in capacity mode, because only the device knows the
    // counts. It also stays unknown for the caller's maps, because finding it might need a wait.
    std::optional<double> density;
    if (network_maps_ && !has_capacities() && needs_density(candidates)) {
      MINUET_ASSIGN(const i64 pairs, pairs_of(layer.map));
      density = static_cast<double>(pairs) / static_cast<double>(std::max<i64>(outputs, 1));
    }
    const Candidate& selected = select(candidates, likely_rows(layer.output), density);
    selected_[i] = static_cast<i32>(&selected - candidates.data());
  }
  find_runners();
  return take_parameters();
}

/// Chooses the mark that an op writes to its word of overflow_ if it computes an infinite or NaN value. For a
/// network, these words are already 0 when a cloud begins. For the caller's maps, each prepare uses a new
/// mark, so that words written for earlier maps are ignored without a fill.
llvm::Error Execution::begin_overflow() {
  const u32 last = std::exchange(overflow_mark_, 0);
  if (network_maps_) {
    overflow_mark_ = 1;
  } else if (last == 0 || last == ~0u) {
    MINUET_TRY(engine_->fill_words(overflow_, 0, layer_count()));
    overflow_mark_ = 1;
  } else {
    overflow_mark_ = last + 1;
  }
  return llvm::Error::success();
}

llvm::Error Execution::prepare_layers() {
  reset_places();
  MINUET_TRY(begin_overflow());
  for (const Work& work : works_) MINUET_TRY(work.work->finish());
  for (i32 i = 0; i < layer_count(); ++i) {
    if (is_covered(i)) continue;
    MINUET_TRY(with_request(i, [&](const OpRequest& request) { return engine_->prepare_op(request); }));
  }
  return engine_->send_prepared();
}

llvm::Error Execution::check_prepared() const {
  if (is_prepared()) return llvm::Error::success();
  return network_maps_ ? make_error(StatusCode::FailedPrecondition,
                                    "no cloud is prepared: call prepare with its coordinates first")
                       : make_error(StatusCode::FailedPrecondition,
                                    "no kernel map is prepared: call prepare_maps first");
}

/// Returns true if the caller's rows of the tensor are in the order that the ops use.
bool Execution::has_storage_order(i32 tensor) const {
  if (program_.tensors[tensor].is_dense()) return true;  // The cells of a dense tensor have one order only.
  return is_in_set_order(tensor) || !levels_[program_.tensors[tensor].level].source_row;
}

/// Returns true if the caller's rows are in the order of the set although the caller's order is another one.
bool Execution::is_in_set_order(i32 tensor) const {
  const u32 bit = tensor == program_.inputs.front()             ? PyramidUse::kInput
                  : llvm::is_contained(program_.inputs, tensor) ? PyramidUse::kResidual
                                                                : PyramidUse::kOutput;
  return (options_.on.set_order & bit) != 0;
}

void Execution::reset_places() {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i] = {storages_[i], program_.storages[i].ld};
  }
}

void* Execution::address_of(i32 tensor) const {
  const TensorSpec& spec = program_.tensors[tensor];
  const i64 element = element_bytes(program_, program_.storages[spec.storage]);
  char* const base = places_[spec.storage].base;
  // A storage in the caller's memory has no address before the run.
  return base ? base + spec.column * element : nullptr;
}

Tensor Execution::tensor_at(i32 tensor) const {
  const i32 channels = program_.tensors[tensor].channels;
  const DType dtype = program_.storages[program_.tensors[tensor].storage].integers.value_or(program_.dtype);
  return {address_of(tensor), rows_of(tensor), ld_of(tensor), channels, dtype};
}

OpRequest Execution::request_of(i32 number) const {
  const ProgramLayer& layer = program_.layers[number];
  OpRequest request;
  request.op = op_of(number);
  if (layer.map >= 0) request.map = &maps_[layer.map];
  const bool has_given = parameter_set_ != nullptr || prepared_block_ != nullptr;
  request.parameters_change = steps_ != nullptr || has_given;
  if (steps_) {
    request.parameters = steps_->parameters(number);
  } else if (has_given) {
    request.parameters = set_pointers_[number];
  } else if (!loaded_->weights[number].empty()) {
    request.parameters = loaded_->weights[number][selected_[number]];
  }
  request.transposed = layer.is_transposed();
  request.input = address_of(layer.input);
  request.input_rows = rows_of(layer.input);
  request.input_ld = ld_of(layer.input);
  request.input_count = levels_[program_.tensors[layer.input].level].count;
  request.output = address_of(layer.output);
  request.output_rows = rows_of(layer.output);
  request.output_ld = ld_of(layer.output);
  request.output_count = levels_[program_.tensors[layer.output].level].count;
  // If an output is a concatenation, its parts are padded too, because they have the same storage.
  request.pads_output = holds_output_[program_.tensors[layer.output].storage];
  if (layer.residual >= 0) {
    request.residual = address_of(layer.residual);
    request.residual_ld = ld_of(layer.residual);
  }
  for (const i32 operand : layer.operands) request.operands.push_back({address_of(operand), ld_of(operand)});
  if (layer.winners >= 0) {
    request.winners = static_cast<i32*>(address_of(layer.winners));
    request.winners_ld = ld_of(layer.winners);
    if (!program_.is_training_pass && !is_in_set_order(layer.input)) {
      request.input_numbers = levels_[program_.tensors[layer.input].level].source_row;
    }
  }
  if (!program_.is_training_pass && !is_in_set_order(layer.output)) {
    request.output_numbers = levels_[program_.tensors[layer.output].level].source_row;
  }
  for (i32 ahead = 1; ahead <= candidate_of(number).covers; ++ahead) {
    const i32 covered = program_.layers[number + ahead].output;
    request.covered.push_back({address_of(covered), ld_of(covered), overflow_ + number + ahead});
    request.pads_output |= holds_output_[program_.tensors[covered].storage];
  }
  request.overflow = overflow_ + number;
  request.overflow_mark = overflow_mark_;
  request.scratch = engine_scratch_;
  return request;
}

llvm::Error Execution::load_inputs(llvm::ArrayRef<Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const i32 tensor = program_.inputs[i];
    const TensorSpec& spec = program_.tensors[tensor];
    const Level& level = levels_[spec.level];
    if (is_input_in_place(i)) {
      places_[spec.storage] = {static_cast<char*>(inputs[i].data), inputs[i].ld};
      continue;
    }
    if (program_.is_training_pass && inputs[i].data == nullptr) {
      MINUET_TRY(engine_->fill_words(storages_[spec.storage], 0, storage_bytes(spec.storage) / kWordBytes));
      continue;
    }
    if (spec.is_dense()) {
      places_[spec.storage] = {static_cast<char*>(inputs[i].data), inputs[i].ld};
      continue;
    }
    MINUET_TRY(engine_->permute_rows({permute_inputs_[i], inputs[i].data, inputs[i].ld, level.source_row,
                                      level.rows, address_of(tensor), ld_of(tensor), level.count}));
  }
  return llvm::Error::success();
}

llvm::Error Execution::run_layers(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs) {
  reset_places();
  // An input that is part of a concatenated output is copied to the caller's memory of that output.
  take_outputs(outputs);
  MINUET_TRY(load_inputs(inputs));
  for (i32 i = 0; i < layer_count(); ++i) {
    if (is_covered(i)) continue;
    if (steps_) MINUET_TRY(steps_->before_layer(i));
    const Trace::Span span(trace_, "layer", program_.layers[i].name);
    const NvtxRange range(program_.layers[i].name.c_str());
    MINUET_TRY(with_request(i, [&](const OpRequest& request) { return engine_->run_op(request); }));
  }
  if (steps_) MINUET_TRY(steps_->before_layer(static_cast<i32>(layer_count())));
  for (std::size_t i = outputs.size(); i-- > 0;) MINUET_TRY(give_output(i, outputs[i]));
  return llvm::Error::success();
}

EngineCounters Execution::counters() const {
  EngineCounters seen = engine_->counters();
  seen.host_syncs += map_waits_;
  seen.allocations += memory_.arena().growths();
  return seen;
}

void Execution::reset_counters() {
  engine_->reset_counters();
  memory_.reset_growths();
  map_waits_ = 0;
}

llvm::Error Execution::read_points(llvm::MutableArrayRef<i32> /*counts*/, void* /*stream*/) {
  return make_error(StatusCode::FailedPrecondition,
                    "the plan takes no points: only a network whose first op is voxelize counts them");
}

llvm::Expected<i32> Execution::find_overflow(void* stream) {
  MINUET_TRY(check_prepared());
  const i64 layers = layer_count();
  MINUET_TRY(call(stream, Timed::Nothing, [&]() -> llvm::Error {
    MINUET_TRY(engine_->read_back(host_overflow_, overflow_, layers * kWordBytes));
    return engine_->wait();
  }));
  const u32* found = std::find(host_overflow_, host_overflow_ + layers, overflow_mark_);
  return found == host_overflow_ + layers ? -1 : static_cast<i32>(found - host_overflow_);
}

}  // namespace minuet
