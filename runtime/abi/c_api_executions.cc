// Implements the functions of the C ABI for executions.
#include <set>

#include "runtime/abi/c_api_internal.h"
#include "runtime/engine/nvtx.h"
#include "runtime/engine/overlap.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

llvm::Error read_capacities(const minuet_execution_options& given, i32 levels, NetworkMapOptions& cloud) {
  if (!given.level_capacity) {
    if (given.level_count == 0 && given.key_bits == 0) return llvm::Error::success();
    return make_error(StatusCode::InvalidArgument,
                      "level_count or key_bits is set, but level_capacity is null: give it, or leave both 0");
  }
  if (given.level_count != levels) {
    return make_error(StatusCode::InvalidArgument,
                      "level_count is {0}; it must be {1}, as the plan has {1} levels", given.level_count,
                      levels);
  }
  for (i32 i = 0; i < levels; ++i) {
    if (given.level_capacity[i] < 1) {
      return make_error(StatusCode::InvalidArgument, "level_capacity[{0}] is {1}; it must be 1 or more", i,
                        given.level_capacity[i]);
    }
  }
  if (given.max_points != 0) {
    return make_error(
        StatusCode::InvalidArgument,
        "max_points is {0}; with level_capacity it must be 0, because level_capacity[0] is the limit",
        given.max_points);
  }
  // Coordinate keys of 64 bits are the default, because they can encode more clouds than keys of 32 bits.
  constexpr i32 kDefaultKeyBits = 64;
  const i32 wanted = given.key_bits == 0 && !cloud.has_bounds ? kDefaultKeyBits : given.key_bits;
  if (cloud.has_bounds ? wanted != 0 : wanted != 32 && wanted != 64) {
    return make_error(StatusCode::InvalidArgument,
                      "key_bits is {0}; it must be 0 if has_bounds is set, otherwise 0, 32 or 64",
                      given.key_bits);
  }
  cloud.level_capacity.assign(given.level_capacity, given.level_capacity + levels);
  cloud.key_bits = wanted;
  return llvm::Error::success();
}

llvm::Expected<ExecutionOptions> read_execution_options(const minuet_execution_options* options, i32 ndim,
                                                        i32 levels, const Device& device) {
  MINUET_ASSIGN(const minuet_execution_options given,
                read_options(options, minuet_execution_options(MINUET_EXECUTION_OPTIONS_INIT)));
  ExecutionOptions execution;
  execution.max_points = given.max_points;
  execution.cloud.keep_first_duplicate = given.keep_first_duplicate != 0;
  execution.cloud.has_bounds = given.has_bounds != 0;
  if (execution.cloud.has_bounds) {
    MINUET_ASSIGN(execution.cloud.bounds, declared_bounds(ndim, given.least, given.greatest));
  }
  MINUET_TRY(read_capacities(given, levels, execution.cloud));
  if (given.map_method < MINUET_MAPS_AUTO || given.map_method > MINUET_MAPS_INDEXED) {
    return make_error(StatusCode::InvalidArgument, "map_method is {0}; it must be 0 to {1}", given.map_method,
                      static_cast<int>(MINUET_MAPS_INDEXED));
  }
  if (given.map_method != MINUET_MAPS_SORTED) execution.cloud.method = MapMethod::Indexed;
  execution.scratch_bytes = given.scratch_bytes;
  if (given.scratch_bytes < 0) {
    return make_error(StatusCode::InvalidArgument, "scratch_bytes is {0}; it must be 0 or more",
                      given.scratch_bytes);
  }
  MINUET_ASSIGN(execution.queue, read_queue(given.queue, device));
  execution.workspace = given.workspace;
  execution.workspace_bytes = given.workspace_bytes;
  MINUET_TRY(check_list(given.workspace, "workspace", given.workspace_bytes, "workspace_bytes"));
  if (reinterpret_cast<std::uintptr_t>(given.workspace) % kArenaAlignment != 0) {
    return make_error(StatusCode::InvalidArgument, "the workspace must begin on a multiple of {0} bytes",
                      kArenaAlignment);
  }
  return execution;
}

llvm::Expected<std::unique_lock<std::mutex>> take_execution(minuet_execution& execution) {
  std::unique_lock<std::mutex> lock(execution.in_call, std::try_to_lock);
  if (lock.owns_lock()) return lock;
  return make_error(StatusCode::FailedPrecondition,
                    "the execution is in use by another thread: use one execution per thread");
}

/// Returns InvalidArgument if the workspaces of two executions overlap. The message names the two executions.
llvm::Error check_workspaces(llvm::ArrayRef<minuet_execution*> executions) {
  const auto workspace_of = [&](std::size_t i) {
    const ExecutionOptions& options = executions[i]->execution->options();
    return memory_of(options.workspace, options.workspace_bytes);
  };
  const auto name_of = [](std::size_t i) { return "the workspace of execution " + std::to_string(i); };
  for (std::size_t i = 0; i < executions.size(); ++i) {
    for (std::size_t other = 0; other < i; ++other) {
      if (overlap(workspace_of(other), workspace_of(i))) return overlap_error(name_of(other), name_of(i));
    }
  }
  return llvm::Error::success();
}

/// Checks that executions that are to be prepared together are distinct, share one queue and have disjoint
/// workspaces.
llvm::Error check_together(llvm::ArrayRef<minuet_execution*> executions) {
  std::set<const minuet_execution*> seen;
  for (minuet_execution* const execution : executions) {
    MINUET_TRY(check_pointer(execution, "an execution"));
    if (!seen.insert(execution).second) {
      return make_error(
          StatusCode::InvalidArgument,
          "an execution is given twice, but it takes only one map: give each map its own execution");
    }
    const std::shared_ptr<Queue>& queue = execution->execution->queue();
    if (!queue || queue != executions.front()->execution->queue()) {
      return make_error(StatusCode::InvalidArgument,
                        "executions that are prepared together must be created with one queue: set it in "
                        "minuet_execution_options");
    }
  }
  return check_workspaces(executions);
}

/// Runs `body` with the execution and its queue locked. If another thread is using the execution, the call
/// fails with FailedPrecondition and changes nothing.
minuet_status in_execution(const char* function, minuet_execution* execution,
                           llvm::function_ref<llvm::Error(Execution&)> body) {
  return guarded(function, [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(execution, "execution"));
    MINUET_ASSIGN(const std::unique_lock<std::mutex> lock, take_execution(*execution));
    MINUET_ASSIGN(const auto locked, lock_queue(execution->execution->queue()));
    return body(*execution->execution);
  });
}

llvm::Error check_count(int32_t count, const std::string& name) {
  if (count >= 0) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} is {1}; it must be 0 or more", name, count);
}

/// Reads the input or output tensors of a call. `name` is "input" or "output".
llvm::Expected<std::vector<Tensor>> read_tensors(const std::string& name, const minuet_tensor* tensors,
                                                 int32_t count) {
  MINUET_TRY(check_count(count, name + "_count"));
  if (count > 0) MINUET_TRY(check_pointer(tensors, (name + "s").c_str()));
  std::vector<Tensor> read;
  for (int32_t i = 0; i < count; ++i) {
    const minuet_tensor& tensor = tensors[i];
    llvm::Expected<DType> dtype = read_dtype(tensor.dtype);
    if (!dtype) return annotate(dtype.takeError(), name + " " + std::to_string(i));
    read.push_back({tensor.data, tensor.rows, tensor.row_stride == 0 ? tensor.channels : tensor.row_stride,
                    tensor.channels, *dtype});
  }
  return read;
}

/// Returns InvalidArgument if two memory ranges that a call writes overlap. The message contains `name` and
/// `other_name`.
llvm::Error check_answers(const char* name, const void* answer, i64 bytes, const char* other_name,
                          const void* other, i64 other_bytes) {
  if (!overlap(memory_of(answer, bytes), memory_of(other, other_bytes))) return llvm::Error::success();
  return overlap_error(name, other_name);
}

llvm::Error check_has_capacities(const Execution& execution) {
  if (execution.has_capacities()) return llvm::Error::success();
  return make_error(
      StatusCode::FailedPrecondition,
      "the execution was created without level_capacity, so prepare itself returns the errors of a cloud: "
      "create it with level_capacity to use this call");
}

llvm::Expected<minuet_layer_info> layer_info(Execution& execution, i32 number) {
  const ProgramLayer& layer = execution.plan().program.layers[number];
  const OperandShape shape = layer.problem.kind().shape(layer.problem);
  minuet_layer_info info{};
  info.name = layer.name.c_str();
  if (const WindowProblem* const window = layer.window()) {
    std::copy(window->kernel_size.begin(), window->kernel_size.end(), info.kernel_size);
    std::copy(window->stride.begin(), window->stride.end(), info.stride);
  }
  info.in_channels = shape.in_channels;
  info.out_channels = shape.out_channels;
  info.transposed = layer.is_transposed();
  MINUET_ASSIGN(info.pairs, execution.layer_pairs(number));
  info.kernel = "";
  if (const Candidate* const selected = execution.selected(number)) {
    const std::optional<Dataflow> dataflow = dataflow_of(selected->choice);
    info.dataflow = dataflow ? 1 + static_cast<int32_t>(*dataflow) : 0;
    info.kernel = selected->kernel.c_str();
  }
  const OpReport report = execution.layer_report(number);
  info.padded_rows = report.padded_rows;
  info.gemm_groups = report.gemm_groups;
  const StageTimes times = execution.layer_times(number);
  info.gather = times.gather, info.gemm = times.gemm, info.scatter = times.scatter;
  return info;
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_execution_create(minuet_plan* plan, minuet_device* device,
                                      const minuet_execution_options* options, minuet_execution** execution) {
  return guarded("minuet_execution_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(execution, "execution"));
    const Program& program = plan->store->plan().program;
    MINUET_ASSIGN(const ExecutionOptions given,
                  read_execution_options(options, program.ndim, static_cast<i32>(program.levels.size()),
                                         *device->open->device()));
    MINUET_ASSIGN(const auto locked, lock_queue(given.queue));
    if (program.takes_maps && (given.max_points != 0 || given.cloud.keep_first_duplicate ||
                               given.cloud.has_bounds || given.cloud.has_capacities())) {
      return make_error(
          StatusCode::InvalidArgument,
          "an execution of a single op takes no max_points, level_capacity, keep_first_duplicate or "
          "has_bounds: leave them 0 (the last two are options of its coordinate sets)");
    }
    const Trace::Span span(device->open->trace(), "run", "create an execution");
    MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> loaded, plan->store->loaded_on(*device->open->device()));
    MINUET_ASSIGN(std::unique_ptr<Execution> made, Execution::create(std::move(loaded), given));
    made->set_trace(device->open->trace());
    *execution = new minuet_execution{device->open, std::move(made), {}};
    return llvm::Error::success();
  });
}

void minuet_execution_destroy(minuet_execution* execution) {
  if (!execution) return;
  execution->in_call.lock();  // This waits for a call of another thread to end.
  execution->in_call.unlock();
  delete execution;
}

minuet_status minuet_execution_prepare(minuet_execution* execution, const int32_t* coordinates, int64_t count,
                                       void* stream) {
  return in_execution("minuet_execution_prepare", execution, [&](Execution& own) -> llvm::Error {
    MINUET_TRY(own.invalidate(/*for_maps=*/false));
    if (count > 0) MINUET_TRY(check_pointer(coordinates, "coordinates"));
    MINUET_TRY(check_alignment(coordinates, sizeof(int32_t), "the coordinates"));
    const Trace::Span span(execution->open->trace(), "run", "prepare");
    const NvtxRange range("prepare");
    return own.prepare(coordinates, count, stream);
  });
}

minuet_status minuet_execution_prepare_on_device(minuet_execution* execution, const int32_t* coordinates,
                                                 const int32_t* count, void* stream) {
  return in_execution("minuet_execution_prepare_on_device", execution, [&](Execution& own) -> llvm::Error {
    MINUET_TRY(own.invalidate(/*for_maps=*/false));
    MINUET_TRY(check_pointer(coordinates, "coordinates"));
    MINUET_TRY(check_pointer(count, "count"));
    MINUET_TRY(check_alignment(coordinates, sizeof(int32_t), "the coordinates"));
    MINUET_TRY(check_alignment(count, sizeof(int32_t), "the count"));
    const Trace::Span span(execution->open->trace(), "run", "prepare");
    const NvtxRange range("prepare");
    return own.prepare_within(coordinates, count, 0, stream);
  });
}

minuet_status minuet_execution_query_cloud(minuet_execution* execution, const uint32_t** status,
                                           const int32_t** counts) {
  return in_execution("minuet_execution_query_cloud", execution, [&](Execution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(status, "status"));
    MINUET_TRY(check_pointer(counts, "counts"));
    MINUET_TRY(check_answers("status", status, sizeof(*status), "counts", counts, sizeof(*counts)));
    MINUET_TRY(check_has_capacities(own));
    *status = own.network_maps()->status();
    *counts = own.network_maps()->counts();
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_read_cloud(minuet_execution* execution, void* stream, uint32_t* status,
                                          int32_t* counts, int32_t count) {
  return in_execution("minuet_execution_read_cloud", execution, [&](Execution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(status, "status"));
    MINUET_TRY(check_has_capacities(own));
    const i32 wanted = 1 + static_cast<i32>(own.plan().program.levels.size());
    if (counts ? count != wanted : count != 0) {
      return make_error(StatusCode::InvalidArgument, "count is {0}; it must be {1}, or 0 if counts is null",
                        count, wanted);
    }
    const i64 bytes = count * static_cast<i64>(sizeof(int32_t));
    MINUET_TRY(check_answers("status", status, sizeof(*status), "counts", counts, bytes));
    return own.read_cloud(stream, *status, {counts, static_cast<std::size_t>(count)});
  });
}

minuet_status minuet_execution_suggest_capacities(minuet_execution* execution, double factor,
                                                  int64_t* level_capacity, int32_t level_count) {
  return in_execution("minuet_execution_suggest_capacities", execution, [&](Execution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(level_capacity, "level_capacity"));
    MINUET_TRY(check_count(level_count, "level_count"));
    std::vector<i64> rows(static_cast<std::size_t>(level_count));
    MINUET_TRY(own.suggest_capacities(factor, rows));
    std::copy(rows.begin(), rows.end(), level_capacity);
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_prepare_maps(minuet_execution* execution, minuet_kernel_map* const* maps,
                                            int32_t count, void* stream) {
  return in_execution("minuet_execution_prepare_maps", execution, [&](Execution& own) -> llvm::Error {
    MINUET_TRY(own.invalidate(/*for_maps=*/true));
    MINUET_TRY(check_count(count, "count"));
    if (count > 0) MINUET_TRY(check_pointer(maps, "maps"));
    std::vector<std::shared_ptr<const KernelMap>> given;
    for (int32_t i = 0; i < count; ++i) {
      MINUET_TRY(check_pointer(maps[i], "a map"));
      given.push_back(maps[i]->map);
    }
    const Trace::Span span(execution->open->trace(), "run", "prepare");
    const NvtxRange range("prepare");
    return own.prepare_maps(std::move(given), stream);
  });
}

minuet_status minuet_executions_prepare_maps(minuet_execution* const* executions,
                                             minuet_kernel_map* const* maps, int32_t count, void* stream) {
  return guarded("minuet_executions_prepare_maps", [&]() -> llvm::Error {
    MINUET_TRY(check_count(count, "count"));
    if (count == 0) return llvm::Error::success();
    MINUET_TRY(check_pointer(executions, "executions"));
    MINUET_TRY(check_pointer(maps, "maps"));
    MINUET_TRY(check_pointer(executions[0], "an execution"));
    const std::shared_ptr<Queue>& queue = executions[0]->execution->queue();
    MINUET_TRY(check_together({executions, static_cast<std::size_t>(count)}));
    std::vector<std::unique_lock<std::mutex>> locks;
    std::vector<Execution*> owns;
    std::vector<std::shared_ptr<const KernelMap>> given;
    for (int32_t i = 0; i < count; ++i) {
      MINUET_ASSIGN(std::unique_lock<std::mutex> lock, take_execution(*executions[i]));
      locks.push_back(std::move(lock));
      MINUET_TRY(check_pointer(maps[i], "a map"));
      owns.push_back(executions[i]->execution.get());
      given.push_back(maps[i]->map);
    }
    MINUET_ASSIGN(const auto locked, lock_queue(queue));
    for (Execution* const own : owns) MINUET_TRY(own->check_takes(/*maps=*/true));
    for (Execution* const own : owns) MINUET_TRY(own->invalidate(/*for_maps=*/true));
    const NvtxRange range("prepare");
    const Trace::Span span(executions[0]->open->trace(), "run", "prepare");
    return Execution::prepare_together(owns, given, stream);
  });
}

minuet_status minuet_execution_output_shape(minuet_execution* execution, int64_t* rows, int32_t* channels) {
  return in_execution("minuet_execution_output_shape", execution, [&](Execution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(rows, "rows"));
    MINUET_TRY(check_pointer(channels, "channels"));
    MINUET_TRY(check_answers("rows", rows, sizeof(*rows), "channels", channels, sizeof(*channels)));
    MINUET_TRY(own.check_prepared());
    const Program& program = own.plan().program;
    *rows = own.output_rows();
    *channels = program.tensors[program.output].channels;
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_run(minuet_execution* execution, const minuet_tensor* inputs,
                                   int32_t input_count, const minuet_tensor* outputs, int32_t output_count,
                                   void* stream) {
  return in_execution("minuet_execution_run", execution, [&](Execution& own) -> llvm::Error {
    MINUET_ASSIGN(const std::vector<Tensor> in, read_tensors("input", inputs, input_count));
    MINUET_ASSIGN(const std::vector<Tensor> out, read_tensors("output", outputs, output_count));
    const Trace::Span span(execution->open->trace(), "run", "run");
    const NvtxRange range("run");
    return own.run(in, out, stream);
  });
}

minuet_status minuet_execution_output_coordinates(minuet_execution* execution, int32_t* coordinates,
                                                  void* stream) {
  return in_execution("minuet_execution_output_coordinates", execution, [&](Execution& own) -> llvm::Error {
    if (own.output_rows() > 0) MINUET_TRY(check_pointer(coordinates, "coordinates"));
    MINUET_TRY(check_alignment(coordinates, sizeof(int32_t), "the coordinates"));
    return own.output_coordinates(coordinates, stream);
  });
}

minuet_status minuet_execution_query_counters(minuet_execution* execution,
                                              minuet_execution_counters* counters) {
  return in_execution("minuet_execution_query_counters", execution, [&](Execution& own) -> llvm::Error {
    const EngineCounters& seen = own.engine().counters();
    minuet_execution_counters answer = MINUET_EXECUTION_COUNTERS_INIT;
    answer.kernels = seen.kernels;
    answer.copies = seen.copies;
    answer.fills = seen.fills;
    answer.matmuls = seen.matmuls;
    answer.host_syncs = seen.host_syncs + own.map_waits();
    answer.allocations = seen.allocations + own.growths();
    answer.workspace_bytes = own.workspace_bytes();
    answer.gemm_lookups = seen.gemm_lookups;
    return write_info(answer, counters);
  });
}

minuet_status minuet_execution_reset_counters(minuet_execution* execution) {
  return in_execution("minuet_execution_reset_counters", execution, [&](Execution& own) -> llvm::Error {
    own.engine().reset_counters();
    own.reset_growths();
    own.reset_map_waits();
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_set_profiling(minuet_execution* execution, int32_t on) {
  return in_execution("minuet_execution_set_profiling", execution, [&](Execution& own) -> llvm::Error {
    own.engine().set_profiling(on != 0);
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_query_stages(minuet_execution* execution, minuet_stage_times* times) {
  return in_execution("minuet_execution_query_stages", execution, [&](Execution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(times, "times"));
    MINUET_ASSIGN(const StageTimes stages, own.query_times());
    return write_info({0, stages.sort, stages.map, stages.gather, stages.gemm, stages.scatter, stages.other},
                      times);
  });
}

minuet_status minuet_execution_query_level(minuet_execution* execution, int32_t level,
                                           minuet_level_info* info) {
  return in_execution("minuet_execution_query_level", execution, [&](Execution& own) -> llvm::Error {
    const std::vector<LevelSpec>& levels = own.plan().program.levels;
    if (level < 0 || level >= static_cast<i32>(levels.size())) {
      return make_error(StatusCode::OutOfRange,
                        "there is no level {0}; the plan has {1} levels, numbered from 0", level,
                        levels.size());
    }
    const bool prepared = own.is_prepared();
    const AxisArray& stride = prepared ? own.level(level).tensor_stride : levels[level].tensor_stride;
    minuet_level_info answer{};
    std::copy(stride.begin(), stride.end(), answer.tensor_stride);
    answer.voxels = prepared ? own.level(level).rows : 0;
    if (prepared) answer.map_method = 1 + static_cast<int32_t>(own.map_method());
    return write_info(answer, info);
  });
}

minuet_status minuet_execution_query_layer(minuet_execution* execution, int32_t layer,
                                           minuet_layer_info* info) {
  return in_execution("minuet_execution_query_layer", execution, [&](Execution& own) -> llvm::Error {
    const i32 layers = static_cast<i32>(own.plan().program.layers.size());
    if (layer < 0 || layer >= layers) {
      return make_error(StatusCode::OutOfRange,
                        "there is no layer {0}; the plan has {1} layers, numbered from 0", layer, layers);
    }
    MINUET_ASSIGN(const minuet_layer_info answer, layer_info(own, layer));
    return write_info(answer, info);
  });
}

minuet_status minuet_execution_release_captures(minuet_execution* execution) {
  return in_execution("minuet_execution_release_captures", execution, [](Execution& own) {
    own.release_captures();
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_find_overflow(minuet_execution* execution, void* stream, int32_t* layer) {
  return in_execution("minuet_execution_find_overflow", execution, [&](Execution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(layer, "layer"));
    MINUET_ASSIGN(*layer, own.find_overflow(stream));
    return llvm::Error::success();
  });
}
}
