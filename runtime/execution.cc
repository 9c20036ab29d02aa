#include "runtime/execution.h"

#include <algorithm>

#include "llvm/ADT/ScopeExit.h"
#include "runtime/alignment.h"

namespace minuet {
namespace {

constexpr i64 kWordBytes = sizeof(i32);

}  // namespace

Execution::Execution(std::shared_ptr<const LoadedPlan> loaded, const ExecutionOptions& options)
    : loaded_(std::move(loaded)),
      program_(loaded_->plan->program),
      compiled_(*loaded_->compiled),
      options_(options),
      arena_(options.queue ? options.queue->memory() : std::shared_ptr<MemorySource>(loaded_->device),
             options.workspace, options.workspace_bytes),
      levels_(program_.levels.size()),
      slices_(program_.layers.size()),
      slots_(program_.slots.size()),
      places_(program_.storages.size()) {}

llvm::Expected<std::unique_ptr<Execution>> Execution::create_unplaced(
    std::shared_ptr<const LoadedPlan> loaded, const ExecutionOptions& options) {
  std::unique_ptr<Execution> execution(new Execution(std::move(loaded), options));
  MINUET_ASSIGN(execution->engine_,
                execution->loaded_->device->create_engine(execution->compiled_.engine,
                                                          options.queue ? options.queue->share() : nullptr));
  MINUET_TRY(execution->add_layers());
  execution->number_maps();
  if (execution->program_.takes_maps) return execution;
  execution->cloud_.emplace(execution->program_, options.cloud, *execution->engine_);
  MINUET_TRY(execution->cloud_->check_count(options.max_points));
  return execution;
}

llvm::Expected<std::unique_ptr<Execution>> Execution::create(std::shared_ptr<const LoadedPlan> loaded,
                                                             const ExecutionOptions& options) {
  MINUET_ASSIGN(std::unique_ptr<Execution> execution, create_unplaced(std::move(loaded), options));
  Execution& made = *execution;
  const i64 layers = made.layer_count();
  MINUET_ASSIGN(void* tables, made.engine_->allocate_pinned((made.table_words_ + 2 * layers) * kWordBytes));
  made.host_tables_ = static_cast<i32*>(tables);
  made.host_overflow_ = static_cast<u32*>(tables) + made.table_words_ + layers;
  if (!made.cloud_) {
    made.fixed_bytes_ = made.place_fixed(nullptr);
    return execution;
  }
  MINUET_TRY(made.cloud_->allocate_host());
  void* const stream = options.queue ? options.queue->stream() : nullptr;
  MINUET_TRY(made.call(stream, [&] { return made.ensure_capacity(std::max<i64>(options.max_points, 1)); }));
  return execution;
}

/// Every level as large as the input, every map's pairs in groups as padded as they may get.
llvm::Expected<i64> Execution::workspace_bound(std::shared_ptr<const LoadedPlan> loaded, i64 points,
                                               double neighbours) {
  ExecutionOptions options;
  options.max_points = points;
  MINUET_ASSIGN(std::unique_ptr<Execution> execution, create_unplaced(std::move(loaded), options));
  for (const Map& map : execution->maps_) {
    MINUET_TRY(check_cloud_rows(points, static_cast<i64>(map.own->groups.order.size())));
  }
  points = std::max<i64>(points, 1);
  static constexpr i32 kPermuted = 0;
  for (Level& level : execution->levels_) {
    level.rows = points;
    level.source_row = &kPermuted;
  }
  const GroupingChoice& grouping = execution->compiled_.grouping;
  for (Map& map : execution->maps_) {
    const i64 volume = static_cast<i64>(map.own->groups.order.size());
    const double pairs = std::min(neighbours, static_cast<double>(volume)) * static_cast<double>(points);
    map.view.geometry.volume = static_cast<i32>(volume);
    map.view.sources = map.view.queries = points;
    GroupPlan& groups = map.own->groups;
    groups.gathered_rows =
        static_cast<i64>(pairs * (1 + grouping.padding_threshold)) + volume * grouping.height_step;
    groups.largest_height = points + grouping.height_step;
    groups.direct_rows = points;
  }
  if (execution->cloud_) execution->cloud_->set_capacity(points);
  return execution->place_fixed(nullptr) + execution->place_tables(nullptr) +
         execution->place_scratch(nullptr);
}

llvm::Error Execution::add_layers() {
  for (std::size_t i = 0; i < program_.layers.size(); ++i) {
    i32 first = -1;
    for (const Candidate& candidate : compiled_.candidates[i]) {
      llvm::Expected<i32> number = engine_->add_convolution(candidate.choice, loaded_->weights[i]);
      if (!number) return annotate(number.takeError(), program_.layers[i].name);
      if (first < 0) first = *number;
    }
    convolutions_.push_back(first);
    selected_.push_back(-1);
  }
  for (const PermuteRowsSpec& spec : compiled_.permute_inputs) {
    MINUET_ASSIGN(const i32 number, engine_->add_permute_rows(spec));
    permute_inputs_.push_back(number);
  }
  MINUET_ASSIGN(permute_output_, engine_->add_permute_rows(compiled_.permute_output));
  MINUET_ASSIGN(permute_coordinates_, engine_->add_permute_rows(compiled_.permute_coordinates));
  return llvm::Error::success();
}

/// Places in the tables: the same for every cloud.
void Execution::number_maps() {
  for (const MapSpec& spec : program_.maps) {
    i64 volume = 1;
    for (const i32 size : spec.kernel_size) volume *= size;
    Map map;
    map.own = std::make_shared<GmasView>();
    map.own->groups = GroupPlan(static_cast<i32>(volume));
    map.gmas = map.own;
    map.table_offset = table_words_;
    table_words_ += kGroupTables * volume;
    maps_.push_back(std::move(map));
  }
}

llvm::Error Execution::call(void* stream, llvm::function_ref<llvm::Error()> work) {
  if (options_.queue) MINUET_TRY(options_.queue->check_stream(stream));
  MINUET_TRY(engine_->begin(stream));
  // Ends what was begun, after an exception too.
  auto end = llvm::make_scope_exit([&] { llvm::consumeError(engine_->end()); });
  idle_ = false;
  llvm::Error error = work();
  end.release();
  error = llvm::joinErrors(std::move(error), engine_->end());
  in_graph_ = in_graph_ || (prepared_ && engine_->was_captured());
  return error;
}

/// What a prepare makes is there once for all runs, and not at each replay.
llvm::Error Execution::refuse_capture() const {
  if (!engine_->was_captured()) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "the stream is being captured: prepare before the capture, which may hold runs only");
}

// ---- prepare -----------------------------------------------------------------------------------

llvm::Error Execution::forget(bool for_maps) {
  if (for_maps != program_.takes_maps) {
    return for_maps
               ? make_error(StatusCode::FailedPrecondition,
                            "this is the execution of a network, which builds its kernel maps itself: use "
                            "prepare")
               : make_error(StatusCode::FailedPrecondition,
                            "this is the execution of a single convolution, whose kernel map is the "
                            "caller's: use prepare_maps");
  }
  prepared_ = false;
  return llvm::Error::success();
}

llvm::Error Execution::prepare(const i32* coordinates, i64 count, void* stream) {
  MINUET_TRY(cloud_->check_count(count));
  MINUET_TRY(call(stream, [&]() -> llvm::Error {
    MINUET_TRY(refuse_capture());
    MINUET_TRY(leave_captured());
    MINUET_TRY(ensure_capacity(std::max<i64>(count, 1)));
    MINUET_TRY(cloud_->find_layout(coordinates, count));
    for (bool fits = false; !fits;) {
      MINUET_TRY(cloud_->build(coordinates, count));
      idle_ = true;
      take_cloud(count);
      MINUET_TRY(group_maps());
      select_candidates();
      const i64 needed = fixed_bytes_ + cloud_bytes();
      fits = needed <= arena_.bytes();
      if (!fits) MINUET_TRY(reserve(needed));
    }
    MINUET_TRY(enqueue_tables());
    return prepare_layers();
  }));
  prepared_ = true;
  return llvm::Error::success();
}

void Execution::take_cloud(i64 count) {
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const i64 rows = cloud_->rows(static_cast<i32>(i));
    levels_[i] = {rows, rows, nullptr, nullptr, program_.levels[i].tensor_stride};
  }
  levels_[0].caller_rows = count;
  levels_[0].source_row = cloud_->source_row();
  levels_[0].row_of = cloud_->row_of();
  for (std::size_t i = 0; i < maps_.size(); ++i) maps_[i].view = cloud_->map(static_cast<i32>(i));
}

llvm::Error Execution::prepare_maps(std::vector<std::shared_ptr<const KernelMap>> maps, void* stream) {
  if (maps.size() != maps_.size()) {
    return make_error(StatusCode::InvalidArgument, "{0} kernel maps are given; the plan takes {1}",
                      maps.size(), maps_.size());
  }
  MINUET_TRY(call(stream, [&]() -> llvm::Error {
    MINUET_TRY(refuse_capture());
    MINUET_TRY(leave_captured());
    // Its pinned tables are written again below.
    MINUET_TRY(engine_->wait_for_sends());
    given_ = std::move(maps);
    MINUET_TRY(take_maps());
    MINUET_TRY(group_maps());
    select_candidates();
    MINUET_TRY(reserve(fixed_bytes_ + cloud_bytes()));
    MINUET_TRY(enqueue_tables());
    return prepare_layers();
  }));
  prepared_ = true;
  return llvm::Error::success();
}

llvm::Error Execution::take_maps() {
  const auto level_of = [](const CoordinateSet& set) {
    return Level{set.rows(), set.caller_rows(), set.source_row(), set.row_of(), set.tensor_stride()};
  };
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const KernelMap& map = *given_[i];
    const MapSpec& spec = program_.maps[i];
    if (map.device() != loaded_->device) {
      return make_error(StatusCode::InvalidArgument,
                        "the kernel map lives on another device than the execution");
    }
    if (map.queue() != options_.queue) {
      return make_error(
          StatusCode::InvalidArgument,
          "the kernel map was made {0} a queue, the execution {1}: make both with the same one, "
          "or both without",
          map.queue() ? "with" : "without", options_.queue ? "with another" : "without");
    }
    for (const ProgramLayer& layer : program_.layers) {
      if (layer.map == static_cast<i32>(i)) MINUET_TRY(map.check_serves(layer.convolution()));
    }
    levels_[spec.fine] = level_of(map.fine());
    levels_[spec.coarse] = level_of(map.coarse());
    maps_[i].view = map.view();
  }
  return llvm::Error::success();
}

/// The map's view that others on the queue have filled, or one to be filled: of the map, or the own.
llvm::Error Execution::choose_view(std::size_t i) {
  Map& map = maps_[i];
  const MapSpec& spec = program_.maps[i];
  const i32 direct = direct_offset(spec.fine == spec.coarse, program_.dtype, map.view.geometry);
  map.unfilled = map.own;
  if (!cloud_ && options_.queue) {
    map.unfilled = nullptr;
    map.gmas = given_[i]->find_gmas_view(direct, compiled_.grouping);
    if (map.gmas) return llvm::Error::success();
    map.unfilled = std::make_shared<GmasView>();
    GmasView& made = *map.unfilled;
    made.groups = GroupPlan(map.view.geometry.volume);
    auto place = [&](Placement& parts) {
      made.source_table = parts.take<i32>(map.view.geometry.volume * map.view.sources);
      made.query_table = parts.take<i32>(map.view.geometry.volume * map.view.queries);
    };
    MINUET_ASSIGN(made.memory, allocate_parts(options_.queue->memory(), place));
  }
  map.unfilled->direct_offset = direct;
  map.unfilled->grouping = compiled_.grouping;
  map.gmas = map.unfilled;
  return llvm::Error::success();
}

llvm::Error Execution::group_maps() {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    MINUET_TRY(choose_view(i));
    const Map& map = maps_[i];
    if (!map.unfilled) continue;
    const i32* counts = cloud_ ? cloud_->pairs(static_cast<i32>(i)) : given_[i]->counts().data();
    MINUET_TRY(group_gemms(counts, map.view.geometry.volume, map.unfilled->direct_offset, compiled_.grouping,
                           map.unfilled->groups));
  }
  return llvm::Error::success();
}

void Execution::select_candidates() {
  for (std::size_t i = 0; i < selected_.size(); ++i) {
    const ProgramLayer& layer = program_.layers[i];
    const std::vector<Candidate>& candidates = compiled_.candidates[i];
    const i64 rows = levels_[program_.tensors[layer.input].level].rows;
    const i64 outputs = levels_[program_.tensors[layer.output].level].rows;
    const double pairs = static_cast<double>(maps_[layer.map].gmas->groups.pairs);
    const Candidate& selected =
        select(candidates, rows, pairs / static_cast<double>(std::max<i64>(outputs, 1)));
    selected_[i] = static_cast<i32>(&selected - candidates.data());
  }
}

llvm::Error Execution::enqueue_tables() {
  MINUET_TRY(place_cloud());
  for (const Map& map : maps_) copy_tables(map.gmas->groups, host_tables_ + map.table_offset);
  std::fill_n(host_tables_ + table_words_, layer_count(), 0);
  MINUET_TRY(engine_->send(tables_, host_tables_, (table_words_ + layer_count()) * kWordBytes));
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    Map& map = maps_[i];
    if (!map.unfilled || (cloud_ && program_.maps[i].is_identity())) continue;
    MINUET_TRY(engine_->make_tables(map.view, map.gmas->direct_offset, map.tables));
    if (map.unfilled != map.own) given_[i]->keep_gmas_view(map.unfilled);
  }
  return llvm::Error::success();
}

llvm::Error Execution::prepare_layers() {
  reset_places();
  for (i32 i = 0; i < layer_count(); ++i) {
    const ProgramLayer& layer = program_.layers[i];
    slice_groups(maps_[layer.map].gmas->groups, slice_rows_of(layer), slices_[i]);
    MINUET_TRY(engine_->prepare_convolution(request_of(i)));
  }
  return engine_->send_prepared();
}

llvm::Error Execution::check_prepared() const {
  if (prepared_) return llvm::Error::success();
  return cloud_ ? make_error(StatusCode::FailedPrecondition,
                             "no cloud is prepared: call prepare with its coordinates first")
                : make_error(StatusCode::FailedPrecondition,
                             "no kernel map is prepared: call prepare_maps first");
}

// ---- run ---------------------------------------------------------------------------------------

/// Whether the caller's own memory stands for the tensor's storage, with all that a concatenation puts there.
bool Execution::is_in_place(i32 tensor) const { return !levels_[program_.tensors[tensor].level].source_row; }

Tensor Execution::wanted(i32 tensor) const {
  const TensorSpec& spec = program_.tensors[tensor];
  return {nullptr, levels_[spec.level].caller_rows, 0, spec.channels, program_.dtype};
}

llvm::Error Execution::check_tensors(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs) const {
  if (inputs.size() != program_.inputs.size() || outputs.size() != 1) {
    return make_error(StatusCode::InvalidArgument,
                      "run takes {0} input{1} and 1 output, and {2} and {3} are given",
                      program_.inputs.size(), program_.inputs.size() > 1 ? "s (the residual second)" : "",
                      inputs.size(), outputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    MINUET_TRY(check_tensor("input " + std::to_string(i), inputs[i], wanted(program_.inputs[i])));
  }
  return check_tensor("output 0", outputs[0], wanted(program_.output));
}

void Execution::reset_places() {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i] = {slots_[program_.storages[i].slot], program_.storages[i].ld};
  }
}

void* Execution::address_of(i32 tensor) const {
  const TensorSpec& spec = program_.tensors[tensor];
  return places_[spec.storage].base + static_cast<i64>(spec.column) * dtype_bytes(program_.dtype);
}

ConvolveRequest Execution::request_of(i32 number) const {
  const ProgramLayer& layer = program_.layers[number];
  const Map& map = maps_[layer.map];
  ConvolveRequest request;
  request.convolution = convolutions_[number] + selected_[number];
  request.map = &map.view;
  request.tables = &map.tables;
  request.groups = &map.gmas->groups;
  request.transposed = layer.convolution().kind == ConvolutionKind::Transposed;
  request.input = address_of(layer.input);
  request.input_rows = levels_[program_.tensors[layer.input].level].rows;
  request.input_ld = ld_of(layer.input);
  request.output = address_of(layer.output);
  request.output_rows = levels_[program_.tensors[layer.output].level].rows;
  request.output_ld = ld_of(layer.output);
  if (layer.residual >= 0) {
    request.residual = address_of(layer.residual);
    request.residual_ld = ld_of(layer.residual);
  }
  request.overflow = reinterpret_cast<u32*>(tables_ + table_words_) + number;
  request.scratch = engine_scratch_;
  request.slices = &slices_[number];
  request.gather_buffer = gather_buffer_;
  request.gemm_buffer = gemm_buffer_;
  request.sums = sums_;
  return request;
}

llvm::Error Execution::load_inputs(llvm::ArrayRef<Tensor> inputs) {
  reset_places();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const i32 tensor = program_.inputs[i];
    const TensorSpec& spec = program_.tensors[tensor];
    const Level& level = levels_[spec.level];
    if (is_in_place(tensor)) {
      places_[spec.storage] = {static_cast<char*>(inputs[i].data), inputs[i].ld};
      continue;
    }
    MINUET_TRY(engine_->permute_rows(permute_inputs_[i], inputs[i].data, inputs[i].ld, level.source_row,
                                     level.rows, address_of(tensor), ld_of(tensor)));
  }
  return llvm::Error::success();
}

llvm::Error Execution::run(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs, void* stream) {
  MINUET_TRY(check_prepared());
  MINUET_TRY(check_tensors(inputs, outputs));
  return call(stream, [&] { return run_layers(inputs, outputs[0]); });
}

llvm::Error Execution::run_layers(llvm::ArrayRef<Tensor> inputs, const Tensor& output) {
  MINUET_TRY(load_inputs(inputs));
  const TensorSpec& spec = program_.tensors[program_.output];
  const bool in_place = is_in_place(program_.output);
  if (in_place) places_[spec.storage] = {static_cast<char*>(output.data), output.ld};
  for (i32 i = 0; i < layer_count(); ++i) MINUET_TRY(engine_->convolve(request_of(i)));
  if (in_place) return llvm::Error::success();
  const Level& level = levels_[spec.level];
  return engine_->permute_rows(permute_output_, address_of(program_.output), ld_of(program_.output),
                               level.row_of, level.caller_rows, output.data, output.ld);
}

llvm::Error Execution::output_coordinates(i32* coordinates, void* stream) {
  if (!cloud_) {
    return make_error(StatusCode::FailedPrecondition,
                      "the coordinate sets of a single convolution are the caller's: export them");
  }
  MINUET_TRY(check_prepared());
  return call(stream, [&]() -> llvm::Error {
    const i32 level = program_.tensors[program_.output].level;
    if (!levels_[level].row_of) return cloud_->unpack(level, coordinates);
    const i32 fields = 1 + program_.ndim;
    MINUET_TRY(cloud_->unpack(level, cloud_->coordinates()));
    return engine_->permute_rows(permute_coordinates_, cloud_->coordinates(), fields, levels_[level].row_of,
                                 levels_[level].caller_rows, coordinates, fields);
  });
}

llvm::Expected<i32> Execution::find_overflow(void* stream) {
  MINUET_TRY(check_prepared());
  const i64 layers = layer_count();
  MINUET_TRY(call(stream, [&]() -> llvm::Error {
    MINUET_TRY(engine_->read_back(host_overflow_, tables_ + table_words_, layers * kWordBytes));
    return engine_->wait();
  }));
  const u32* found = std::find(host_overflow_, host_overflow_ + layers, 1u);
  return found == host_overflow_ + layers ? -1 : static_cast<i32>(found - host_overflow_);
}

}  // namespace minuet
