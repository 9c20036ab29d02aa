// Runs a plan on sets and maps that are in a buffer of the caller (Pyramid). Such an execution keeps nothing
// between runs, so that every run may have other memory and another stream.
#include "llvm/ADT/ScopeExit.h"
#include "runtime/execution/execution.h"

namespace minuet {
namespace {

/// Returns, for example, "2 x 2 x 1".
std::string axes_text(const Program& program, const AxisArray& axes) {
  std::string text = std::to_string(axes[0]);
  for (i32 a = 1; a < program.ndim; ++a) text += " x " + std::to_string(axes[a]);
  return text;
}

/// Finds the pyramid's level for each level of a program, or -1 for one that holds batch items. A network's
/// levels are found by how they follow from level 0: by their tensor stride, and also by the op and the shape
/// if an op reaches them, or by both parents if they are unions.
llvm::Expected<std::vector<i32>> find_levels(const Program& program, const PyramidUse& use) {
  const Pyramid& pyramid = *use.pyramid;
  std::vector<i32> found(program.levels.size());
  if (program.takes_maps) {
    const auto maps = static_cast<i32>(pyramid.program().maps.size());
    if (use.map < 0 || use.map >= maps) {
      return make_error(StatusCode::InvalidArgument,
                        "map is {0}, but the pyramid has {1} maps, numbered from 0", use.map, maps);
    }
    const MapSpec& map = pyramid.program().maps[use.map];
    found[program.maps[0].fine] = map.fine;
    found[program.maps[0].coarse] = map.coarse;
    return found;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (program.levels[i].holds_items) {
      found[i] = -1;
      continue;
    }
    found[i] = pyramid.find_level(program, static_cast<i32>(i));
    if (found[i] >= 0) continue;
    return make_error(
        StatusCode::InvalidArgument,
        "the pyramid has no level of tensor stride {0}{1}, which is that of level {2} of the plan",
        axes_text(program, program.levels[i].tensor_stride),
        program.levels[i].reach             ? " that is reached by this op from the same level"
        : program.levels[i].is_union()      ? " that is the union of the same levels"
        : program.levels[i].is_intersection ? " that is the intersection of the same levels"
                                            : "",
        i);
  }
  return found;
}

/// Describes the kernel of a map in messages.
std::string kernel_text(const Program& program, const MapSpec& map) {
  if (!map.offsets.empty()) return llvm::formatv("the plan's list of {0} offsets", map.offsets.size()).str();
  return llvm::formatv(
             "kernel size {0} and dilation {1}{2}", axes_text(program, map.kernel_size),
             axes_text(program, map.dilation),
             map.padding ? ", with dense_offsets and padding " + axes_text(program, *map.padding) : "")
      .str();
}

/// Finds the pyramid's map for each map of a program, or -1 for one between batch items.
llvm::Expected<std::vector<i32>> find_maps(const Program& program, const PyramidUse& use,
                                           llvm::ArrayRef<i32> levels) {
  if (program.takes_maps) return std::vector<i32>{use.map};
  std::vector<i32> found;
  for (MapSpec map : program.maps) {
    map.fine = levels[map.fine];
    map.coarse = levels[map.coarse];
    found.push_back(map.coarse < 0 ? -1 : use.pyramid->find_map(map));
    if (found.back() >= 0 || map.coarse < 0) continue;
    return make_error(StatusCode::InvalidArgument,
                      "the pyramid has no map from level {0} to level {1} with {2}, which the plan needs",
                      map.fine, map.coarse, kernel_text(program, map));
  }
  return found;
}

/// Checks that the pyramid has the coordinates that ops of a program read, and the same cells.
llvm::Error check_coordinates_of(const Program& program, const Pyramid& pyramid, llvm::ArrayRef<i32> levels) {
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (!program.levels[i].keeps_coordinates) continue;
    const PyramidLevel& level = pyramid.description().levels[levels[i]];
    const bool is_dense = program.levels[i].is_dense;
    if (level.keeps_coordinates && pyramid.description().batch_size > 0 &&
        (!is_dense || level.shape == program.levels[i].shape)) {
      continue;
    }
    return make_error(
        StatusCode::InvalidArgument,
        "the network has a {0} of level {1}, for which the pyramid must have its coordinates{2} "
        "and a batch size: make the pyramid of the network, with batch_size",
        is_dense ? "dense tensor" : "global pooling", i, is_dense ? ", its shape" : "");
  }
  return llvm::Error::success();
}

/// Returns the error for a map of the pyramid that is not made for ops like the layer.
llvm::Error no_purpose(const Pyramid& pyramid, i32 map, const ProgramLayer& layer) {
  const OpKind& kind = layer.problem.kind();
  const std::string op = (layer.is_transposed() ? "transposed " : "") + std::string(kind.name);
  for (const PyramidPurpose& purpose : pyramid.description().purposes) {
    if (purpose.kind != &kind || purpose.transposed != layer.is_transposed()) continue;
    return make_error(
        StatusCode::InvalidArgument,
        "map {0} of the pyramid is not made for layer {1}, a {2}: add {3} to the map's purposes", map,
        layer.name, op, purpose.name);
  }
  return make_error(StatusCode::InvalidArgument,
                    "map {0} of the pyramid is not made for layer {1}, a {2}: make the pyramid of a network "
                    "that has this layer",
                    map, layer.name, op);
}

/// Checks that the pyramid's maps serve the ops of a program, and are made for them.
llvm::Error check_maps(const Program& program, const Pyramid& pyramid, llvm::ArrayRef<i32> maps) {
  for (const ProgramLayer& layer : program.layers) {
    if (layer.map < 0 || maps[layer.map] < 0) continue;
    const i32 number = maps[layer.map];
    const MapSpec& map = pyramid.program().maps[number];
    const OpKind& kind = layer.problem.kind();
    if (kind.shape(layer.problem).refuses_duplicates && pyramid.description().keep_first_duplicate) {
      return make_error(StatusCode::InvalidArgument,
                        "the pyramid was made with keep_first_duplicate, and the gradient of the input does "
                        "not add the gradients of duplicates: make a pyramid without keep_first_duplicate");
    }
    const AxisArray& fine = pyramid.program().levels[map.fine].tensor_stride;
    const MapSides sides{geometry_of(pyramid.program(), map), map.offsets, fine,
                         pyramid.program().levels[map.coarse].tensor_stride, map.fine == map.coarse};
    if (program.takes_maps) MINUET_TRY(check_serves(sides, *layer.window(), kind.name));
    if (pyramid.serves({number, layer.is_transposed(), &kind}) || map.is_identity()) continue;
    return no_purpose(pyramid, number, layer);
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<std::unique_ptr<Execution>> Execution::create_on(std::shared_ptr<const LoadedPlan> loaded,
                                                                const PyramidUse& use,
                                                                const MakeRunSteps& make_steps) {
  const Program& program = loaded->plan->program;
  if (has_stages(program)) {
    return make_error(
        StatusCode::FailedPrecondition,
        "an op of the network makes a level in each run, which a pyramid cannot contain: run the "
        "plan with minuet_execution_create");
  }
  if (program.ndim != use.pyramid->ndim()) {
    return make_error(StatusCode::InvalidArgument, "the plan has {0} axes, but the pyramid has {1}",
                      program.ndim, use.pyramid->ndim());
  }
  if (!program.takes_maps && use.map != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "map is {0}, but a network finds its maps itself: leave map 0", use.map);
  }
  if (!program.takes_maps && use.set_order != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "a network takes and gives rows in the caller's order only: leave the set's order to "
                      "single ops");
  }
  ExecutionOptions options;
  options.on = use;
  MINUET_ASSIGN(std::vector<i32> levels, find_levels(program, use));
  MINUET_TRY(check_coordinates_of(program, *use.pyramid, levels));
  options.cloud.batch_size = use.pyramid->description().batch_size;
  for (const i32 level : levels) {
    options.cloud.level_capacity.push_back(level < 0 ? options.cloud.batch_size
                                                     : use.pyramid->capacity(level));
  }
  std::unique_ptr<Execution> execution(new Execution(std::move(loaded), options));
  MINUET_ASSIGN(execution->pyramid_maps_, find_maps(program, use, levels));
  MINUET_TRY(check_maps(program, *use.pyramid, execution->pyramid_maps_));
  execution->pyramid_levels_ = std::move(levels);
  MINUET_TRY(execution->add_to_pyramid(make_steps));
  return execution;
}

llvm::Error Execution::add_to_pyramid(const MakeRunSteps& make_steps) {
  const Device& device = *loaded_->device;
  MINUET_ASSIGN(engine_, loaded_->device->create_engine(compiled_.engine));
  MINUET_TRY(check_item_capacity());
  placed_.emplace(options_.on.pyramid, *engine_, device.info().arch);
  MINUET_TRY(placed_->find_limits());
  MINUET_ASSIGN(const PlacedPyramid::Bytes bytes, placed_->measure());
  pyramid_bytes_ = bytes.buffer;
  take_pyramid_levels();
  MINUET_TRY(add_layers());
  MINUET_TRY(make_works());
  MINUET_TRY(select_within_capacities());
  overflow_mark_ = 1;
  take_pyramid_maps();
  if (make_steps) {
    MINUET_ASSIGN(steps_, make_steps(*this));
  }
  Placement parts = Placement::of_stand_ins(0), kept = Placement::of_stand_ins(0);
  MINUET_TRY(place_run(parts, kept));
  run_bytes_ = parts.bytes();
  kept_bytes_ = kept.bytes();
  if (engine_->workspace_bytes() == 0) return llvm::Error::success();
  return make_error(StatusCode::Internal,
                    "an op keeps data between its runs, so that it cannot run on a pyramid");
}

/// Takes the addresses of the sets from placed_.
void Execution::take_pyramid_levels() {
  const NetworkMaps& maps = placed_->maps();
  const Pyramid& pyramid = placed_->pyramid();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const i32 number = pyramid_levels_[i];
    if (number < 0) {
      levels_[i].rows = levels_[i].caller_rows = options_.cloud.batch_size;
      levels_[i].tensor_stride = program_.levels[i].tensor_stride;
      continue;
    }
    const i64 rows = pyramid.capacity(number);
    levels_[i] = {rows,
                  rows,
                  maps.count(number),
                  nullptr,
                  nullptr,
                  nullptr,
                  pyramid.program().levels[number].tensor_stride};
    if (number != 0) continue;
    levels_[i].caller_count = maps.counts();
    levels_[i].source_row = maps.source_row();
    levels_[i].row_of = maps.row_of();
  }
}

/// Takes the maps and their views from placed_.
void Execution::take_pyramid_maps() {
  const Pyramid& pyramid = placed_->pyramid();
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    if (pyramid_maps_[i] < 0) {
      maps_[i] = {};
      maps_[i].geometry = geometry_of(program_, program_.maps[i]);
      maps_[i].offsets = program_.maps[i].offsets;
      maps_[i].sources = maps_[i].queries = options_.cloud.batch_size;
      continue;
    }
    const MapSpec& spec = pyramid.program().maps[pyramid_maps_[i]];
    maps_[i] = placed_->maps().map(pyramid_maps_[i]);
    maps_[i].sources = pyramid.capacity(spec.fine);
    maps_[i].queries = pyramid.capacity(spec.coarse);
  }
  views_->begin();
  for (i32 i = 0; i < layer_count(); ++i) {
    const ProgramLayer& layer = program_.layers[i];
    if (is_covered(i) || layer.map < 0 || pyramid_maps_[layer.map] < 0) continue;
    const ViewForm form = candidate_of(i).form;
    const MapView* const made = placed_->view(pyramid_maps_[layer.map], layer.is_transposed(), form);
    if (made) views_->take_made(layer.map, *made, layer.is_transposed(), form);
  }
}

/// Places all memory of a run.
llvm::Error Execution::place_run(Placement& parts, Placement& kept) {
  // The pyramid has the number of rows of all other levels.
  if (program_.levels.back().holds_items) levels_.back().count = parts.take<i32>(1);
  for (const Work& work : works_) work.work->begin(most_rows());
  for (i32 i = 0; i < layer_count(); ++i) {
    if (!is_covered(i)) MINUET_TRY(add_op(i));
  }
  for (const Work& work : works_) {
    work.work->place_fixed(parts);
    work.work->place_tables(parts, nullptr);
    work.work->place_workspace(parts);
    work.work->place_buffers(parts);
  }
  overflow_ = parts.take<u32>(layer_count());
  engine_scratch_ = parts.take<char>(engine_->scratch_bytes());
  place_kept_storages(kept);
  if (steps_) steps_->place(parts, kept);
  place_storages(parts);
  return llvm::Error::success();
}

/// Checks all memory of a run, whose arrays are read already.
llvm::Error Execution::check_run_memory(const PyramidRun& run, const RunArrays& arrays) {
  MINUET_TRY(check_block("buffer", run.buffer, run.buffer_bytes, pyramid_bytes_));
  MINUET_TRY(check_block("workspace", run.workspace, run.workspace_bytes, run_bytes_));
  std::vector<NamedMemory> written{{"the workspace", memory_of(run.workspace, run_bytes_)}};
  std::vector<NamedMemory> read{{"the pyramid's buffer", memory_of(run.buffer, pyramid_bytes_)}};
  if (run.prepared || run.prepared_bytes != 0) {
    MINUET_TRY(check_block("prepared", run.prepared, run.prepared_bytes, prepared_bytes()));
    read.push_back({"the prepared parameters", memory_of(run.prepared, prepared_bytes())});
  }
  if (kept_bytes_ > 0) {
    MINUET_TRY(check_block("kept", run.kept, run.kept_bytes, kept_bytes_));
    (run.writes_kept ? written : read).push_back({"kept", memory_of(run.kept, kept_bytes_)});
  }
  for (std::size_t i = 0; i < arrays.written.size(); ++i) {
    written.push_back({name_of_output(i), arrays.written[i]});
  }
  for (std::size_t i = 0; i < arrays.read.size(); ++i) {
    const char* const also = i == 1 && takes_residual() ? " (the residual)" : "";
    read.push_back({name_of_input(i) + also, arrays.read[i]});
  }
  return check_apart(written, read);
}

/// Runs `work` with the values of these parameters, or with the plan's own values if `parameters` is null.
llvm::Error Execution::with_parameters(const std::shared_ptr<ParameterSet>& parameters,
                                       llvm::function_ref<llvm::Error()> work) {
  ExecutionOptions values;
  values.on = options_.on;
  values.parameters = parameters;
  if (!steps_) MINUET_TRY(check_parameters(*loaded_, values));
  // The set is the caller's, so the execution refers to it during the call only.
  parameter_set_ = parameters;
  auto forget = llvm::make_scope_exit([&] { parameter_set_.reset(); });
  return work();
}

llvm::Error Execution::prepare_on(const std::shared_ptr<ParameterSet>& parameters) {
  return with_parameters(parameters, [&] {
    return call(loaded_->device->own_stream(), Timed::Nothing, [&] { return take_parameters(); });
  });
}

llvm::Error Execution::run_on(const PyramidRun& run, void* stream) {
  MINUET_ASSIGN(const RunArrays arrays, read_arrays(run.inputs, run.outputs));
  MINUET_TRY(check_run_memory(run, arrays));
  const auto enqueue = [&]() -> llvm::Error {
    if (run.times) engine_->set_profiling(true);
    llvm::Error error = call(stream, Timed::Run, [&] { return enqueue_on(run, arrays); });
    if (!run.times) return error;
    if (!error) error = take_times(*run.times);
    engine_->set_profiling(false);
    return error;
  };
  if (run.prepared) {
    if (run.parameters) {
      return make_error(StatusCode::InvalidArgument,
                        "parameters and prepared are both given: choose one of them");
    }
    prepared_block_ = static_cast<const char*>(run.prepared);
    auto forget = llvm::make_scope_exit([&] { prepared_block_ = nullptr; });
    return enqueue();
  }
  return with_parameters(run.parameters, [&]() -> llvm::Error {
    if (run.parameters) MINUET_TRY(run.parameters->check_complete());
    return enqueue();
  });
}

/// Waits for the run that has been enqueued last.
llvm::Error Execution::take_times(RunTimes& times) {
  MINUET_TRY(query_times().takeError());
  times.layers.clear();
  for (i32 layer = 0; layer < layer_count(); ++layer) times.layers.push_back(layer_times(layer));
  const auto ops = std::min(static_cast<std::size_t>(op_count_), op_times_.size());
  times.steps.assign(op_times_.begin() + static_cast<std::ptrdiff_t>(ops), op_times_.end());
  return llvm::Error::success();
}

/// Takes the addresses of everything in the caller's memory. The usual caller gives the same memory again,
/// and all addresses are then the same.
llvm::Error Execution::place_at(const PyramidRun& run) {
  if (run.buffer == placed_buffer_ && run.workspace == placed_workspace_ && run.kept == placed_kept_) {
    return llvm::Error::success();
  }
  placed_buffer_ = placed_workspace_ = nullptr;
  MINUET_TRY(placed_->place(run.buffer, nullptr));
  take_pyramid_levels();
  take_pyramid_maps();
  Placement parts(static_cast<char*>(run.workspace), /*idle=*/false);
  Placement kept(static_cast<char*>(run.kept), /*idle=*/false);
  MINUET_TRY(place_run(parts, kept));
  placed_buffer_ = run.buffer;
  placed_workspace_ = run.workspace;
  placed_kept_ = run.kept;
  return llvm::Error::success();
}

/// Writes the number of rows of the level that holds batch items. It is 0 if the pyramid's cloud has failed.
llvm::Error Execution::count_items() {
  i32* const count = levels_.back().count;
  MINUET_TRY(engine_->fill_words(count, static_cast<u32>(options_.cloud.batch_size), 1));
  return engine_->maps().void_failed(placed_->maps().status(), count, 1);
}

llvm::Error Execution::enqueue_on(const PyramidRun& run, const RunArrays& arrays) {
  MINUET_TRY(take_parameters());
  MINUET_TRY(place_at(run));
  reset_places();
  if (program_.levels.back().holds_items) MINUET_TRY(count_items());
  if (steps_) {
    MINUET_TRY(run.give_arguments(*steps_));
    MINUET_TRY(steps_->start());
  }
  for (const Work& work : works_) MINUET_TRY(work.work->finish());
  for (i32 i = 0; i < layer_count(); ++i) {
    if (is_covered(i)) continue;
    MINUET_TRY(with_request(i, [&](const OpRequest& request) { return engine_->prepare_op(request); }));
  }
  MINUET_TRY(engine_->send_prepared());
  return run_layers(arrays.features, arrays.results);
}

}  // namespace minuet
