// Implements the functions of the C ABI for pyramids, and for runs that keep no state.
#include "llvm/ADT/ScopeExit.h"
#include "runtime/abi/pyramid_options.h"
#include "runtime/engine/overlap.h"

namespace minuet {
namespace {

constexpr i64 kWord = sizeof(i32);

/// Runs `work` with the pyramid in an engine of the device, in one call on `stream`.
llvm::Error with_pyramid(const minuet_pyramid& pyramid, const minuet_device& device, void* stream,
                         llvm::function_ref<llvm::Error(Engine&, PlacedPyramid&)> work) {
  MINUET_ASSIGN(const std::shared_ptr<MapEngines> engines,
                device.open->loaded_map_engines(pyramid.pyramid->ndim(), "minuet_pyramid_load"));
  MINUET_ASSIGN(const MapEngines::Lease engine, engines->take(nullptr));
  PlacedPyramid placed(pyramid.pyramid, **engine, device.open->device()->info().arch);
  MINUET_TRY(placed.find_limits());
  MINUET_TRY(engine->begin(stream));
  // The engine's own memory is not used, so its next user need not wait.
  const auto end = llvm::make_scope_exit([&] { engine->end(); });
  return work(**engine, placed);
}

/// Checks the arguments of a call that reads a buffer, and runs `work` with the pyramid in this buffer. The
/// call writes `written`.
llvm::Error read_pyramid(minuet_pyramid* pyramid, minuet_device* device, const void* buffer, i64 buffer_bytes,
                         llvm::ArrayRef<NamedMemory> written, void* stream,
                         llvm::function_ref<llvm::Error(Engine&, PlacedPyramid&)> work) {
  return with_pyramid(*pyramid, *device, stream, [&](Engine& engine, PlacedPyramid& placed) -> llvm::Error {
    MINUET_ASSIGN(const PlacedPyramid::Bytes bytes, placed.measure());
    MINUET_TRY(check_block("buffer", buffer, buffer_bytes, bytes.buffer));
    MINUET_TRY(check_apart(written, NamedMemory{"buffer", memory_of(buffer, bytes.buffer)}));
    MINUET_TRY(placed.place(const_cast<void*>(buffer), nullptr));
    return work(engine, placed);
  });
}

llvm::Error check_exported(const Pyramid& pyramid, int32_t map) {
  const auto maps = static_cast<i32>(pyramid.program().maps.size());
  if (map < 0 || map >= maps) {
    return make_error(StatusCode::OutOfRange, "map is {0}; the pyramid has {1}, numbered from 0", map, maps);
  }
  if (pyramid.exports(map)) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "the pairs of map {0} are not in the buffer: add MINUET_PURPOSE_EXPORT to its purposes",
                    map);
}

llvm::Error check_level(const Pyramid& pyramid, int32_t level) {
  if (level < 0 || level >= pyramid.levels()) {
    return make_error(StatusCode::OutOfRange, "level is {0}; the pyramid has {1}, numbered from 0", level,
                      pyramid.levels());
  }
  if (pyramid.description().levels[level].keeps_coordinates) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "the buffer has no coordinates of level {0}: set its bit of keep_coordinates", level);
}

llvm::Error build(minuet_pyramid& pyramid, minuet_device& device, const minuet_pyramid_arguments& given,
                  void* stream) {
  const Pyramid& own = *pyramid.pyramid;
  if (given.most < 0 || given.most > own.capacity(0)) {
    return make_error(StatusCode::OutOfRange, "most is {0}; it must be 0 to {1}, the capacity of level 0",
                      given.most, own.capacity(0));
  }
  if (given.most > 0) MINUET_TRY(check_pointer(given.coordinates, "coordinates"));
  const std::pair<const void*, const char*> words[] = {{given.coordinates, "coordinates"},
                                                       {given.count, "count"},
                                                       {given.status, "status"},
                                                       {given.counts, "counts"}};
  for (const auto& [pointer, name] : words) MINUET_TRY(check_alignment(pointer, sizeof(i32), name));
  return with_pyramid(pyramid, device, stream, [&](Engine& engine, PlacedPyramid& placed) -> llvm::Error {
    MINUET_ASSIGN(const PlacedPyramid::Bytes bytes, placed.measure());
    MINUET_TRY(check_block("buffer", given.buffer, given.buffer_bytes, bytes.buffer));
    MINUET_TRY(check_block("workspace", given.workspace, given.workspace_bytes, bytes.workspace));
    const i64 count_bytes = (1 + own.levels()) * kWord;
    const NamedMemory written[] = {{"buffer", memory_of(given.buffer, bytes.buffer)},
                                   {"workspace", memory_of(given.workspace, bytes.workspace)},
                                   {"status", memory_of(given.status, given.status ? kWord : 0)},
                                   {"counts", memory_of(given.counts, given.counts ? count_bytes : 0)}};
    const NamedMemory read[] = {
        {"coordinates", memory_of(given.coordinates, given.most * (1 + own.ndim()) * kWord)},
        {"count", memory_of(given.count, given.count ? kWord : 0)}};
    MINUET_TRY(check_apart(written, read));
    // The Map step may poison the gaps between the parts of its own workspace for AddressSanitizer.
    const auto unpoison = llvm::make_scope_exit([&] { unpoison_parts(given.workspace, bytes.workspace); });
    MINUET_TRY(placed.place(given.buffer, given.workspace));
    MINUET_TRY(placed.build(given.coordinates, given.count, given.most));
    if (given.status) MINUET_TRY(engine.copy(given.status, placed.maps().status(), kWord));
    return given.counts ? engine.copy(given.counts, placed.maps().counts(), count_bytes)
                        : llvm::Error::success();
  });
}

llvm::Expected<PyramidUse> read_use(const minuet_run_arguments& given) {
  MINUET_TRY(check_pointer(given.pyramid, "pyramid"));
  constexpr uint32_t kOrders = MINUET_SET_ORDER_INPUT | MINUET_SET_ORDER_OUTPUT | MINUET_SET_ORDER_RESIDUAL;
  if (given.set_order > kOrders) {
    return make_error(StatusCode::InvalidArgument, "set_order is {0}; it must be 0 to {1}", given.set_order,
                      kOrders);
  }
  PyramidUse use;
  use.pyramid = given.pyramid->pyramid;
  use.map = given.map;
  use.set_order = given.set_order;
  return use;
}

/// Adds `one` to a list that refers to each object once. Removes objects that are destroyed.
template <class T>
void note(const std::shared_ptr<T>& one, std::vector<std::weak_ptr<T>>& list) {
  std::erase_if(list, [](const std::weak_ptr<T>& known) { return known.expired(); });
  const auto is_same = [&](const std::weak_ptr<T>& known) {
    return !known.owner_before(one) && !one.owner_before(known);
  };
  if (llvm::none_of(list, is_same)) list.push_back(one);
}

/// Notes that the plan keeps executions for the pyramid, and the parameters of the run keep images of
/// weights for it. minuet_pyramid_destroy() releases both.
void note_run(minuet_pyramid& pyramid, const minuet_plan& plan, const minuet_parameters* parameters) {
  note_runs(pyramid, plan.runs);
  const std::lock_guard<std::mutex> lock(pyramid.mutex);
  if (parameters) note(parameters->set, pyramid.parameters);
}

llvm::Expected<minuet_run_arguments> read_run(const minuet_run_arguments* arguments) {
  MINUET_TRY(check_pointer(arguments, "arguments"));
  return read_options(arguments, minuet_run_arguments(MINUET_RUN_ARGUMENTS_INIT));
}

/// Reads a value of each parameter of a plan. Errors name the parameter.
llvm::Expected<std::vector<GivenArray>> read_plan_values(const minuet_array* values, int32_t count,
                                                         const minuet_plan& plan) {
  MINUET_TRY(check_count(count, "value_count"));
  if (count > 0) MINUET_TRY(check_pointer(values, "values"));
  const auto name_of = [&](int32_t i) {
    const auto number = static_cast<std::size_t>(i);
    return number < plan.parameters.size() ? "parameter \"" + plan.parameters[number].name + "\""
                                           : "value " + std::to_string(i);
  };
  const auto read_value = [](const minuet_array& value) -> llvm::Expected<GivenArray> {
    if (value.element == MINUET_ELEMENT_F32) return read_array(value, ArrayUse::Parameter);
    return make_error(StatusCode::InvalidArgument, "its element has the number {0}; it must be f32 (0)",
                      static_cast<i32>(value.element));
  };
  std::vector<GivenArray> read;
  for (int32_t i = 0; i < count; ++i) {
    llvm::Expected<GivenArray> array = read_value(values[i]);
    if (!array) return annotate(array.takeError(), name_of(i));
    read.push_back(std::move(*array));
  }
  return read;
}

/// Asks an execution for a number of bytes, without a device.
llvm::Error measure(minuet_plan* plan, const char* arch, const minuet_run_arguments* arguments,
                    int64_t* bytes, llvm::function_ref<i64(Execution&)> ask) {
  MINUET_TRY(check_pointer(plan, "plan"));
  MINUET_TRY(check_pointer(bytes, "bytes"));
  MINUET_ASSIGN(const minuet_run_arguments given, read_run(arguments));
  MINUET_ASSIGN(const PyramidUse use, read_use(given));
  MINUET_ASSIGN(const std::string own_arch, read_arch(arch));
  MINUET_ASSIGN(const std::shared_ptr<Device> device, measured_device(own_arch, plan->cpu_threads));
  MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> measured, plan->store->measured_on(device));
  MINUET_ASSIGN(const std::unique_ptr<Execution> execution, Execution::create_on(std::move(measured), use));
  *bytes = ask(*execution);
  return llvm::Error::success();
}

}  // namespace

void note_runs(minuet_pyramid& pyramid, const std::shared_ptr<RunPool>& runs) {
  const std::lock_guard<std::mutex> lock(pyramid.mutex);
  note(runs, pyramid.runs);
}

}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_pyramid_create(minuet_context* context, const minuet_pyramid_options* options,
                                    minuet_pyramid** pyramid) {
  return guarded("minuet_pyramid_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(options, "options"));
    MINUET_TRY(check_pointer(pyramid, "pyramid"));
    MINUET_ASSIGN(const minuet_pyramid_options given,
                  read_options(options, minuet_pyramid_options(MINUET_PYRAMID_OPTIONS_INIT)));
    MINUET_ASSIGN(PyramidDescription description, read_pyramid_options(given));
    MINUET_ASSIGN(std::shared_ptr<const Pyramid> made, Pyramid::create(std::move(description)));
    *pyramid = new minuet_pyramid{context->context, std::move(made), {}, {}, {}};
    return llvm::Error::success();
  });
}

void minuet_pyramid_destroy(minuet_pyramid* pyramid) {
  if (!pyramid) return;
  for (const std::weak_ptr<RunPool>& runs : pyramid->runs) {
    if (const std::shared_ptr<RunPool> pool = runs.lock()) pool->drop(*pyramid->pyramid);
  }
  // The executions have waited for the runs, which read images of the parameters.
  for (const std::weak_ptr<ParameterSet>& parameters : pyramid->parameters) {
    if (const std::shared_ptr<ParameterSet> set = parameters.lock()) {
      set->release_run_images(pyramid->pyramid.get());
    }
  }
  delete pyramid;
}

minuet_status minuet_pyramid_bytes(minuet_pyramid* pyramid, const char* arch, int64_t* buffer_bytes,
                                   int64_t* workspace_bytes) {
  return guarded("minuet_pyramid_bytes", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(pyramid, "pyramid"));
    MINUET_TRY(check_pointer(buffer_bytes, "buffer_bytes"));
    MINUET_TRY(check_pointer(workspace_bytes, "workspace_bytes"));
    const NamedMemory answers[] = {{"buffer_bytes", memory_of(buffer_bytes, sizeof(*buffer_bytes))},
                                   {"workspace_bytes", memory_of(workspace_bytes, sizeof(*workspace_bytes))}};
    MINUET_TRY(check_apart(answers, {}));
    MINUET_ASSIGN(const std::string own_arch, read_arch(arch));
    if (!own_arch.empty() && !parse_arch(own_arch)) return not_an_arch(own_arch);
    MINUET_ASSIGN(const std::shared_ptr<Device> device,
                  measured_device(own_arch, pyramid->context->cpu_threads()));
    MINUET_ASSIGN(const std::unique_ptr<Engine> engine,
                  device->create_engine(choose_engine(pyramid->pyramid->ndim())));
    MINUET_ASSIGN(const PlacedPyramid::Bytes bytes,
                  PlacedPyramid(pyramid->pyramid, *engine, own_arch).measure());
    *buffer_bytes = bytes.buffer;
    *workspace_bytes = bytes.workspace;
    return llvm::Error::success();
  });
}

minuet_status minuet_pyramid_load(minuet_pyramid* pyramid, minuet_device* device) {
  return guarded("minuet_pyramid_load", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(pyramid, "pyramid"));
    MINUET_TRY(check_pointer(device, "device"));
    return device->open->map_engines(pyramid->pyramid->ndim()).takeError();
  });
}

minuet_status minuet_pyramid_build(minuet_pyramid* pyramid, minuet_device* device,
                                   const minuet_pyramid_arguments* arguments, void* stream) {
  return guarded("minuet_pyramid_build", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(pyramid, "pyramid"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(arguments, "arguments"));
    MINUET_ASSIGN(const minuet_pyramid_arguments given,
                  read_options(arguments, minuet_pyramid_arguments(MINUET_PYRAMID_ARGUMENTS_INIT)));
    const Trace::Span span(device->open->trace(), "run", "build a pyramid");
    return build(*pyramid, *device, given, stream);
  });
}

minuet_status minuet_pyramid_coordinates(minuet_pyramid* pyramid, minuet_device* device, const void* buffer,
                                         int64_t buffer_bytes, int32_t level, int32_t* coordinates,
                                         void* stream) {
  return guarded("minuet_pyramid_coordinates", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(pyramid, "pyramid"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(coordinates, "coordinates"));
    MINUET_TRY(check_alignment(coordinates, sizeof(int32_t), "coordinates"));
    const Pyramid& own = *pyramid->pyramid;
    MINUET_TRY(check_level(own, level));
    const NamedMemory written{"coordinates",
                              memory_of(coordinates, own.capacity(level) * (1 + own.ndim()) * kWord)};
    return read_pyramid(
        pyramid, device, buffer, buffer_bytes, written, stream,
        [&](Engine&, PlacedPyramid& placed) { return placed.copy_coordinates(level, coordinates); });
  });
}

minuet_status minuet_pyramid_rows(minuet_pyramid* pyramid, minuet_device* device, const void* buffer,
                                  int64_t buffer_bytes, int32_t* source_row, int32_t* set_row, void* stream) {
  return guarded("minuet_pyramid_rows", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(pyramid, "pyramid"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_alignment(source_row, sizeof(int32_t), "source_row"));
    MINUET_TRY(check_alignment(set_row, sizeof(int32_t), "set_row"));
    const i64 bytes = pyramid->pyramid->capacity(0) * kWord;
    const NamedMemory written[] = {{"source_row", memory_of(source_row, source_row ? bytes : 0)},
                                   {"set_row", memory_of(set_row, set_row ? bytes : 0)}};
    return read_pyramid(pyramid, device, buffer, buffer_bytes, written, stream,
                        [&](Engine& engine, PlacedPyramid& placed) -> llvm::Error {
                          const NetworkMaps& maps = placed.maps();
                          if (source_row) MINUET_TRY(engine.copy(source_row, maps.source_row(), bytes));
                          return set_row ? engine.copy(set_row, maps.row_of(), bytes)
                                         : llvm::Error::success();
                        });
  });
}

minuet_status minuet_pyramid_export_pairs(minuet_pyramid* pyramid, minuet_device* device, const void* buffer,
                                          int64_t buffer_bytes, int32_t map, int32_t* pairs, int64_t capacity,
                                          int32_t* count, void* stream) {
  return guarded("minuet_pyramid_export_pairs", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(pyramid, "pyramid"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(count, "count"));
    MINUET_TRY(check_list(pairs, "pairs", capacity, "capacity"));
    MINUET_TRY(check_alignment(pairs, sizeof(int32_t), "pairs"));
    MINUET_TRY(check_alignment(count, sizeof(int32_t), "count"));
    MINUET_TRY(check_exported(*pyramid->pyramid, map));
    const i64 most = pyramid->pyramid->most_pairs(map);
    const NamedMemory written[] = {{"pairs", memory_of(pairs, std::min<i64>(capacity, most) * 3 * kWord)},
                                   {"count", memory_of(count, kWord)}};
    return read_pyramid(
        pyramid, device, buffer, buffer_bytes, written, stream,
        [&](Engine&, PlacedPyramid& placed) { return placed.export_pairs(map, pairs, capacity, count); });
  });
}

minuet_status minuet_plan_run_bytes(minuet_plan* plan, const char* arch,
                                    const minuet_run_arguments* arguments, int64_t* bytes) {
  return guarded("minuet_plan_run_bytes", [&]() -> llvm::Error {
    return measure(plan, arch, arguments, bytes, [](Execution& execution) { return execution.run_bytes(); });
  });
}

minuet_status minuet_plan_prepared_bytes(minuet_plan* plan, const char* arch,
                                         const minuet_run_arguments* arguments, int64_t* bytes) {
  return guarded("minuet_plan_prepared_bytes", [&]() -> llvm::Error {
    return measure(plan, arch, arguments, bytes,
                   [](Execution& execution) { return execution.prepared_bytes(); });
  });
}

minuet_status minuet_plan_prepare_parameters(minuet_plan* plan, minuet_device* device,
                                             const minuet_run_arguments* arguments,
                                             const minuet_array* values, int32_t value_count,
                                             minuet_weights_order order, void* prepared,
                                             int64_t prepared_bytes, void* stream) {
  return guarded("minuet_plan_prepare_parameters", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_ASSIGN(const minuet_run_arguments given, read_run(arguments));
    MINUET_ASSIGN(const PyramidUse use, read_use(given));
    MINUET_ASSIGN(const std::vector<GivenArray> read, read_plan_values(values, value_count, *plan));
    MINUET_ASSIGN(const std::shared_ptr<const LoadedPlan> loaded,
                  plan->store->loaded_on(*device->open->device()));
    MINUET_ASSIGN(const WeightsOrder own_order, read_weights_order(order, *loaded->plan));
    note_run(*given.pyramid, *plan, nullptr);
    return plan->runs->prepare_parameters(loaded, use, read, own_order, prepared, prepared_bytes, stream);
  });
}

minuet_status minuet_plan_run_load(minuet_plan* plan, minuet_device* device,
                                   const minuet_run_arguments* arguments) {
  return guarded("minuet_plan_run_load", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_ASSIGN(const minuet_run_arguments given, read_run(arguments));
    MINUET_ASSIGN(const PyramidUse use, read_use(given));
    MINUET_ASSIGN(const std::shared_ptr<const LoadedPlan> loaded,
                  plan->store->loaded_on(*device->open->device()));
    note_run(*given.pyramid, *plan, given.parameters);
    return plan->runs->prepare(loaded, use, given.parameters ? given.parameters->set : nullptr);
  });
}

minuet_status minuet_plan_run(minuet_plan* plan, minuet_device* device, const minuet_run_arguments* arguments,
                              void* stream) {
  return guarded("minuet_plan_run", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_ASSIGN(const minuet_run_arguments given, read_run(arguments));
    MINUET_ASSIGN(const PyramidUse use, read_use(given));
    MINUET_ASSIGN(const std::vector<GivenArray> inputs,
                  read_arrays("input", given.inputs, given.input_count, ArrayUse::RunInput));
    MINUET_ASSIGN(const std::vector<GivenArray> outputs,
                  read_arrays("output", given.outputs, given.output_count, ArrayUse::RunOutput));
    MINUET_ASSIGN(const std::shared_ptr<const LoadedPlan> loaded,
                  plan->store->loaded_on(*device->open->device()));
    PyramidRun run;
    run.buffer = const_cast<void*>(given.buffer);
    run.buffer_bytes = given.buffer_bytes;
    run.workspace = given.workspace;
    run.workspace_bytes = given.workspace_bytes;
    run.inputs = inputs;
    run.outputs = outputs;
    if (given.parameters) run.parameters = given.parameters->set;
    run.prepared = given.prepared;
    run.prepared_bytes = given.prepared_bytes;
    const Trace::Span span(device->open->trace(), "run", "run on a pyramid");
    note_run(*given.pyramid, *plan, given.parameters);
    return plan->runs->run(loaded, use, run, stream);
  });
}
}
