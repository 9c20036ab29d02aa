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
    if (given.level_slots) {
      return make_error(StatusCode::InvalidArgument,
                        "level_slots is given without level_capacity: give both, or neither");
    }
    if (given.level_count == 0 && given.key_bits == 0) return llvm::Error::success();
    return make_error(StatusCode::InvalidArgument,
                      "level_count or key_bits is set, but level_capacity is null: give it, or leave both 0");
  }
  MINUET_TRY(check_level_count(given.level_count, levels));
  for (i32 i = 0; i < levels; ++i) {
    if (given.level_capacity[i] < 1) {
      return make_error(StatusCode::InvalidArgument, "level_capacity[{0}] is {1}; it must be 1 or more", i,
                        given.level_capacity[i]);
    }
    llvm::Error error = check_coordinate_count(given.level_capacity[i]);
    if (error) return annotate(std::move(error), "level_capacity[" + std::to_string(i) + "]");
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
  MINUET_ASSIGN(cloud.level_slots, read_slots(given.level_slots, levels));
  cloud.level_capacity.assign(given.level_capacity, given.level_capacity + levels);
  cloud.key_bits = wanted;
  return llvm::Error::success();
}

/// Checks a workspace of the caller. `size_name` is the name of its number of bytes.
llvm::Error check_workspace(const void* workspace, i64 bytes, const char* size_name) {
  MINUET_TRY(check_list(workspace, "workspace", bytes, size_name));
  if (reinterpret_cast<std::uintptr_t>(workspace) % kArenaAlignment == 0) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "the workspace must begin on a multiple of {0} bytes",
                    kArenaAlignment);
}

}  // namespace

llvm::Expected<ExecutionOptions> read_size_options(const minuet_execution_options& given,
                                                   const Program& program) {
  MINUET_TRY(annotate(check_coordinate_count(given.max_points), "max_points"));
  MINUET_TRY(check_flags({{given.keep_first_duplicate, "keep_first_duplicate"},
                          {given.has_bounds, "has_bounds"},
                          {given.defer_workspace, "defer_workspace"},
                          {given.parameter_inputs, "parameter_inputs"}}));
  ExecutionOptions execution;
  execution.max_points = given.max_points;
  execution.cloud.keep_first_duplicate = given.keep_first_duplicate != 0;
  execution.cloud.has_bounds = given.has_bounds != 0;
  if (execution.cloud.has_bounds) {
    MINUET_ASSIGN(execution.cloud.bounds, declared_bounds(program.ndim, given.least, given.greatest));
  }
  MINUET_TRY(read_capacities(given, static_cast<i32>(program.levels.size()), execution.cloud));
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
  execution.parameter_inputs = given.parameter_inputs != 0;
  MINUET_ASSIGN(execution.cloud.batch_size, read_batch_size(given.batch_size));
  if (program.takes_maps &&
      (given.max_points != 0 || execution.cloud.keep_first_duplicate || execution.cloud.has_bounds ||
       execution.cloud.has_capacities() || execution.cloud.batch_size != 0)) {
    return make_error(StatusCode::InvalidArgument,
                      "an execution of a single op takes no max_points, level_capacity, batch_size, "
                      "keep_first_duplicate or has_bounds: leave them 0 (the last two are options of its "
                      "coordinate sets)");
  }
  return execution;
}

namespace {

llvm::Expected<ExecutionOptions> read_execution_options(const minuet_execution_options* options,
                                                        const Program& program, const Device& device) {
  MINUET_ASSIGN(const minuet_execution_options given,
                read_options(options, minuet_execution_options(MINUET_EXECUTION_OPTIONS_INIT)));
  MINUET_ASSIGN(ExecutionOptions execution, read_size_options(given, program));
  MINUET_ASSIGN(execution.queue, read_queue(given.queue, device));
  if (given.parameters) execution.parameters = given.parameters->set;
  MINUET_TRY(check_workspace(given.workspace, given.workspace_bytes, "workspace_bytes"));
  if (given.workspace && given.defer_workspace != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "defer_workspace is set, but a workspace is given too: leave one of the two 0");
  }
  execution.workspace = given.workspace;
  execution.workspace_bytes = given.workspace_bytes;
  execution.has_callers_memory = given.workspace || given.defer_workspace != 0;
  return execution;
}

llvm::Expected<std::unique_lock<std::mutex>> take_execution(minuet_execution& execution) {
  std::unique_lock<std::mutex> lock(execution.in_call, std::try_to_lock);
  if (lock.owns_lock()) return lock;
  return make_error(StatusCode::FailedPrecondition,
                    "the execution is in use by another thread: use one execution per thread");
}

/// Returns InvalidArgument if the workspaces of two executions overlap. The message names the two executions.
/// The caller must hold the locks of all executions.
llvm::Error check_workspaces(llvm::ArrayRef<minuet_execution*> executions) {
  const auto workspace_of = [&](std::size_t i) { return executions[i]->execution->callers_workspace(); };
  const auto name_of = [](std::size_t i) { return "the workspace of execution " + std::to_string(i); };
  for (std::size_t i = 0; i < executions.size(); ++i) {
    for (std::size_t other = 0; other < i; ++other) {
      if (overlap(workspace_of(other), workspace_of(i))) return overlap_error(name_of(other), name_of(i));
    }
  }
  return llvm::Error::success();
}

/// Checks that executions that are to be prepared together are distinct and share one queue.
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
  return llvm::Error::success();
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

llvm::Error check_has_capacities(const PlanExecution& execution) {
  if (execution.has_capacities()) return llvm::Error::success();
  return make_error(
      StatusCode::FailedPrecondition,
      "the execution was created without level_capacity, so prepare itself returns the errors of a cloud: "
      "create it with level_capacity to use this call");
}

/// Checks the memory to which a call writes the status and the `count` counts of a cloud.
llvm::Error check_cloud_answers(const PlanExecution& execution, const uint32_t* status, const int32_t* counts,
                                int32_t count) {
  const i32 wanted = 1 + static_cast<i32>(execution.plan().program.levels.size());
  if (counts ? count != wanted : count != 0) {
    return make_error(StatusCode::InvalidArgument, "count is {0}; it must be {1}, or 0 if counts is null",
                      count, wanted);
  }
  const i64 bytes = count * static_cast<i64>(sizeof(int32_t));
  return check_answers("status", status, sizeof(*status), "counts", counts, bytes);
}

}  // namespace

llvm::Error check_count(int32_t count, const std::string& name) {
  if (count >= 0) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} is {1}; it must be 0 or more", name, count);
}

llvm::Expected<std::vector<GivenArray>> read_arrays(const std::string& name, const minuet_array* arrays,
                                                    int32_t count, ArrayUse use) {
  MINUET_TRY(check_count(count, name + "_count"));
  if (count > 0) MINUET_TRY(check_pointer(arrays, (name + "s").c_str()));
  std::vector<GivenArray> read;
  for (int32_t i = 0; i < count; ++i) {
    llvm::Expected<GivenArray> array = read_array(arrays[i], use);
    if (!array) return annotate(array.takeError(), name + " " + std::to_string(i));
    read.push_back(std::move(*array));
  }
  return read;
}

llvm::Expected<i32> read_batch_size(int64_t batch_size) {
  if (batch_size >= 0 && batch_size <= INT32_MAX) return static_cast<i32>(batch_size);
  return make_error(StatusCode::InvalidArgument, "batch_size is {0}; it must be 0 to {1}", batch_size,
                    INT32_MAX);
}

llvm::Error check_level_count(int32_t level_count, i32 levels) {
  if (level_count == levels) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "level_count is {0}; it must be {1}, as the plan has {1} levels", level_count, levels);
}

minuet_status in_execution(const char* function, minuet_execution* execution,
                           llvm::function_ref<llvm::Error(PlanExecution&)> body) {
  return guarded(function, [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(execution, "execution"));
    MINUET_ASSIGN(const std::unique_lock<std::mutex> lock, take_execution(*execution));
    MINUET_ASSIGN(const auto locked, lock_queue(execution->execution->queue()));
    return body(*execution->execution);
  });
}

}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_execution_create(minuet_plan* plan, minuet_device* device,
                                      const minuet_execution_options* options, minuet_execution** execution) {
  return guarded("minuet_execution_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(execution, "execution"));
    MINUET_ASSIGN(const ExecutionOptions given,
                  read_execution_options(options, plan->store->plan().program, *device->open->device()));
    MINUET_ASSIGN(const auto locked, lock_queue(given.queue));
    const Trace::Span span(device->open->trace(), "run", "create an execution");
    MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> loaded, plan->store->loaded_on(*device->open->device()));
    MINUET_ASSIGN(std::unique_ptr<PlanExecution> made, PlanExecution::create(std::move(loaded), given));
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
  return in_execution("minuet_execution_prepare", execution, [&](PlanExecution& own) -> llvm::Error {
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
  return in_execution("minuet_execution_prepare_on_device", execution,
                      [&](PlanExecution& own) -> llvm::Error {
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
  return in_execution("minuet_execution_query_cloud", execution, [&](PlanExecution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(status, "status"));
    MINUET_TRY(check_pointer(counts, "counts"));
    MINUET_TRY(check_answers("status", status, sizeof(*status), "counts", counts, sizeof(*counts)));
    MINUET_TRY(check_has_capacities(own));
    MINUET_TRY(own.check_has_memory());
    const CloudWords words = own.cloud_state();
    *status = words.status;
    *counts = words.counts;
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_copy_cloud(minuet_execution* execution, uint32_t* status, int32_t* counts,
                                          int32_t count, void* stream) {
  return in_execution("minuet_execution_copy_cloud", execution, [&](PlanExecution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(status, "status"));
    MINUET_TRY(check_alignment(status, sizeof(uint32_t), "the status"));
    MINUET_TRY(check_alignment(counts, sizeof(int32_t), "the counts"));
    MINUET_TRY(check_has_capacities(own));
    MINUET_TRY(check_cloud_answers(own, status, counts, count));
    return own.copy_cloud(status, {counts, static_cast<std::size_t>(count)}, stream);
  });
}

minuet_status minuet_execution_read_cloud(minuet_execution* execution, uint32_t* status, int32_t* counts,
                                          int32_t count, void* stream) {
  return in_execution("minuet_execution_read_cloud", execution, [&](PlanExecution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(status, "status"));
    MINUET_TRY(check_has_capacities(own));
    MINUET_TRY(check_cloud_answers(own, status, counts, count));
    return own.read_cloud(stream, *status, {counts, static_cast<std::size_t>(count)});
  });
}

minuet_status minuet_execution_suggest_capacities(minuet_execution* execution, double factor,
                                                  int64_t* level_capacity, int32_t level_count) {
  return in_execution("minuet_execution_suggest_capacities", execution,
                      [&](PlanExecution& own) -> llvm::Error {
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
  return in_execution("minuet_execution_prepare_maps", execution, [&](PlanExecution& own) -> llvm::Error {
    MINUET_TRY(own.invalidate(/*for_maps=*/true));
    MINUET_TRY(check_count(count, "count"));
    if (count > 0) MINUET_TRY(check_pointer(maps, "maps"));
    std::vector<std::shared_ptr<const KernelMap>> given;
    given.reserve(static_cast<std::size_t>(count));
    for (int32_t i = 0; i < count; ++i) {
      MINUET_TRY(check_pointer(maps[i], "a map"));
      given.push_back(maps[i]->map);
    }
    const Trace::Span span(execution->open->trace(), "run", "prepare");
    const NvtxRange range("prepare");
    return own.single_op()->prepare_maps(std::move(given), stream);
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
    std::vector<PlanExecution*> owns;
    std::vector<std::shared_ptr<const KernelMap>> given;
    owns.reserve(static_cast<std::size_t>(count));
    given.reserve(static_cast<std::size_t>(count));
    for (int32_t i = 0; i < count; ++i) {
      MINUET_ASSIGN(std::unique_lock<std::mutex> lock, take_execution(*executions[i]));
      locks.push_back(std::move(lock));
      MINUET_TRY(check_pointer(maps[i], "a map"));
      owns.push_back(executions[i]->execution.get());
      given.push_back(maps[i]->map);
    }
    MINUET_ASSIGN(const auto locked, lock_queue(queue));
    MINUET_TRY(check_workspaces({executions, static_cast<std::size_t>(count)}));
    for (PlanExecution* const own : owns) MINUET_TRY(own->check_takes(/*maps=*/true));
    for (PlanExecution* const own : owns) MINUET_TRY(own->invalidate(/*for_maps=*/true));
    const NvtxRange range("prepare");
    const Trace::Span span(executions[0]->open->trace(), "run", "prepare");
    std::vector<Execution*> ops;
    ops.reserve(owns.size());
    for (PlanExecution* const own : owns) ops.push_back(own->single_op());
    return Execution::prepare_together(ops, given, stream);
  });
}

minuet_status minuet_execution_run(minuet_execution* execution, const minuet_tensor* inputs,
                                   int32_t input_count, const minuet_tensor* outputs, int32_t output_count,
                                   void* stream) {
  return in_execution("minuet_execution_run", execution, [&](PlanExecution& own) -> llvm::Error {
    MINUET_ASSIGN(const std::vector<Tensor> in, read_tensors("input", inputs, input_count));
    MINUET_ASSIGN(const std::vector<Tensor> out, read_tensors("output", outputs, output_count));
    const Trace::Span span(execution->open->trace(), "run", "run");
    const NvtxRange range("run");
    return own.run(in, out, stream);
  });
}

minuet_status minuet_execution_run_arrays(minuet_execution* execution, const minuet_array* inputs,
                                          int32_t input_count, const minuet_array* outputs,
                                          int32_t output_count, void* stream) {
  return in_execution("minuet_execution_run_arrays", execution, [&](PlanExecution& own) -> llvm::Error {
    MINUET_ASSIGN(const std::vector<GivenArray> in,
                  read_arrays("input", inputs, input_count, ArrayUse::RunInput));
    MINUET_ASSIGN(const std::vector<GivenArray> out,
                  read_arrays("output", outputs, output_count, ArrayUse::RunOutput));
    const Trace::Span span(execution->open->trace(), "run", "run");
    const NvtxRange range("run");
    return own.run_arrays(in, out, stream);
  });
}

minuet_status minuet_execution_set_workspace(minuet_execution* execution, void* workspace, int64_t bytes,
                                             void* stream) {
  return in_execution("minuet_execution_set_workspace", execution, [&](PlanExecution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(workspace, "workspace"));
    MINUET_TRY(check_workspace(workspace, bytes, "bytes"));
    return own.set_workspace(workspace, bytes, stream);
  });
}

minuet_status minuet_execution_release_captures(minuet_execution* execution) {
  return in_execution("minuet_execution_release_captures", execution, [](PlanExecution& own) {
    own.release_captures();
    return llvm::Error::success();
  });
}
}
