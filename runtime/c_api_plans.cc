// The C ABI: networks, compiling and loading of plans, executions.
#include "runtime/c_api_internal.h"

namespace minuet {

minuet_kernel_info kernel_info(const Binary& binary, BinaryOrigin origin) {
  minuet_kernel_info info{};
  info.struct_size = sizeof(info);
  info.name = binary.display_name.c_str();
  info.arch = binary.arch.c_str();
  info.origin = origin_name(origin);
  info.registers = binary.registers;
  info.shared_bytes = binary.shared_bytes;
  info.local_bytes = binary.local_bytes;
  info.cubin_bytes = static_cast<int64_t>(binary.cubin.size());
  info.compile_ms = binary.compile_ms;
  return info;
}

void visit_kernels(const BinaryList& binaries, const std::vector<CacheEvent>& events, std::size_t first_event,
                   minuet_kernel_visitor visit, void* user) {
  if (!visit) return;
  std::map<std::string, BinaryOrigin> origins;
  for (std::size_t i = first_event; i < events.size(); ++i) {
    origins.emplace(events[i].display_name + events[i].arch, events[i].origin);
  }
  for (const std::shared_ptr<const Binary>& binary : binaries) {
    const auto found = origins.find(binary->display_name + binary->arch);
    const BinaryOrigin origin = found == origins.end() ? BinaryOrigin::Memory : found->second;
    const minuet_kernel_info info = kernel_info(*binary, origin);
    visit(&info, user);
  }
}

namespace {

/// Plans of both kinds are compiled and loaded alike.
template <class Handle>
minuet_status compile_plan(const char* function, Handle* handle, const char* arch,
                           minuet_kernel_visitor visit, void* user) {
  return guarded(function, [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(handle, "the plan"));
    MINUET_TRY(check_pointer(arch, "arch"));
    const KernelCache& cache = handle->residence->cache();
    const std::size_t first_event = cache.events().size();  // what was there before came from memory
    MINUET_ASSIGN(const BinaryList binaries, handle->residence->compile(arch));
    visit_kernels(binaries, cache.events(), first_event, visit, user);
    return llvm::Error::success();
  });
}

template <class Handle>
minuet_status load_plan(const char* function, Handle* handle, minuet_device* device) {
  return guarded(function, [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(handle, "the plan"));
    MINUET_TRY(check_pointer(device, "device"));
    const Trace::Span span(device->open->trace(), "plan", "load onto the device");
    return handle->residence->load(device->open->device());
  });
}

llvm::Expected<ExecutionOptions> read_execution_options(const minuet_execution_options* options, i32 ndim) {
  MINUET_ASSIGN(const minuet_execution_options given,
                read_options(options, minuet_execution_options(MINUET_EXECUTION_OPTIONS_INIT)));
  ExecutionOptions execution;
  execution.max_points = given.max_points;
  execution.keep_first_duplicate = given.keep_first_duplicate != 0;
  execution.has_bounds = given.has_bounds != 0;
  if (execution.has_bounds) {
    MINUET_ASSIGN(execution.bounds, declared_bounds(ndim, given.least, given.greatest));
  }
  execution.workspace = given.workspace;
  execution.workspace_bytes = given.workspace_bytes;
  if (reinterpret_cast<std::uintptr_t>(given.workspace) % kArenaAlignment != 0 || given.workspace_bytes < 0) {
    return make_error(StatusCode::InvalidArgument, "the workspace must begin on a multiple of {0} bytes",
                      kArenaAlignment);
  }
  return execution;
}

llvm::Expected<NetworkExecution*> network_of(minuet_execution* execution) {
  MINUET_TRY(check_pointer(execution, "execution"));
  if (execution->network) return execution->network.get();
  return make_error(StatusCode::FailedPrecondition,
                    "this execution belongs to a convolution, not to a network");
}

llvm::Expected<ConvolutionExecution*> convolution_of(minuet_execution* execution) {
  MINUET_TRY(check_pointer(execution, "execution"));
  if (execution->convolution) return execution->convolution.get();
  return make_error(StatusCode::FailedPrecondition,
                    "this execution belongs to a network, not to a convolution");
}

minuet_layer_info layer_info(const NetworkExecution& execution, i32 number) {
  const ProgramLayer& layer = execution.plan().program.layers[number];
  minuet_layer_info info{};
  copy_text(info.name, layer.name);
  std::copy(layer.problem.kernel_size.begin(), layer.problem.kernel_size.end(), info.kernel_size);
  std::copy(layer.problem.stride.begin(), layer.problem.stride.end(), info.stride);
  info.in_channels = layer.problem.in_channels;
  info.out_channels = layer.problem.out_channels;
  info.transposed = layer.problem.kind == ConvolutionKind::Transposed;
  if (execution.prepared()) {
    const GroupPlan& groups = execution.layer_groups(number);
    info.pairs = groups.pairs;
    info.padded_rows = groups.padding_rows;
    info.gemm_groups = static_cast<int32_t>(groups.groups.size()) + (groups.direct_rows > 0 ? 1 : 0);
  }
  return info;
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: the ABI's functions are global

extern "C" {

minuet_status minuet_convolution_compile(minuet_convolution* convolution, const char* arch,
                                         minuet_kernel_visitor visit, void* user) {
  return compile_plan("minuet_convolution_compile", convolution, arch, visit, user);
}

minuet_status minuet_convolution_load(minuet_convolution* convolution, minuet_device* device) {
  return load_plan("minuet_convolution_load", convolution, device);
}

void minuet_network_destroy(minuet_network* network) { delete network; }

minuet_status minuet_network_compile(minuet_network* network, const char* arch, minuet_kernel_visitor visit,
                                     void* user) {
  return compile_plan("minuet_network_compile", network, arch, visit, user);
}

minuet_status minuet_network_load(minuet_network* network, minuet_device* device) {
  return load_plan("minuet_network_load", network, device);
}

minuet_status minuet_network_query(minuet_network* network, minuet_network_info* info) {
  return guarded("minuet_network_query", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(network, "network"));
    const NetworkProgram& program = network->plan->program;
    minuet_network_info answer{};
    copy_text(answer.name, program.name);
    answer.dtype = static_cast<minuet_dtype>(program.dtype);
    answer.ndim = program.ndim;
    answer.in_channels = program.tensors[program.input].channels;
    answer.out_channels = program.tensors[program.output].channels;
    answer.levels = static_cast<int32_t>(program.levels.size());
    answer.layers = static_cast<int32_t>(program.layers.size());
    answer.output_level = program.tensors[program.output].level;
    answer.parameters = network->plan->parameter_count;
    answer.missing_head = program.is_head_missing ? 1 : 0;
    answer.deterministic = 1;         // no kernel uses atomics on floats
    answer.prepare_capture_safe = 0;  // it reads counts back
    answer.run_capture_safe = 1;
    return write_info(answer, info);
  });
}

minuet_status minuet_network_workspace_bytes(minuet_network* network, minuet_device* device,
                                             int64_t max_points, double max_neighbours, int64_t* bytes) {
  return guarded("minuet_network_workspace_bytes", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(network, "network"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(bytes, "bytes"));
    if (!(max_neighbours >= 1)) {
      return make_error(StatusCode::InvalidArgument, "max_neighbours is {0}; a voxel has itself at least",
                        max_neighbours);
    }
    MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> loaded,
                  network->residence->loaded_on(*device->open->device()));
    MINUET_ASSIGN(*bytes, NetworkExecution::workspace_bound(network->plan, std::move(loaded), max_points,
                                                            max_neighbours));
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_create(minuet_network* network, minuet_device* device,
                                      const minuet_execution_options* options, minuet_execution** execution) {
  return guarded("minuet_execution_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(network, "network"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(execution, "execution"));
    MINUET_ASSIGN(const ExecutionOptions given, read_execution_options(options, network->plan->program.ndim));
    MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> loaded,
                  network->residence->loaded_on(*device->open->device()));
    MINUET_ASSIGN(std::unique_ptr<NetworkExecution> made,
                  NetworkExecution::create(network->plan, std::move(loaded), given));
    *execution = new minuet_execution{device->open, std::move(made), nullptr};
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_create_convolution(minuet_convolution* convolution, minuet_device* device,
                                                  const minuet_execution_options* options,
                                                  minuet_execution** execution) {
  return guarded("minuet_execution_create_convolution", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(convolution, "convolution"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(execution, "execution"));
    MINUET_ASSIGN(const ExecutionOptions given,
                  read_execution_options(options, convolution->plan->problem.ndim));
    if (given.max_points != 0 || given.keep_first_duplicate || given.has_bounds) {
      return make_error(
          StatusCode::InvalidArgument,
          "a convolution's execution takes a workspace only; the rest belongs to its coordinate sets");
    }
    MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> loaded,
                  convolution->residence->loaded_on(*device->open->device()));
    MINUET_ASSIGN(std::unique_ptr<ConvolutionExecution> made,
                  ConvolutionExecution::create(convolution->plan, std::move(loaded), given.workspace,
                                               given.workspace_bytes));
    *execution = new minuet_execution{device->open, nullptr, std::move(made)};
    return llvm::Error::success();
  });
}

void minuet_execution_destroy(minuet_execution* execution) { delete execution; }

minuet_status minuet_execution_prepare(minuet_execution* execution, const int32_t* coordinates, int64_t count,
                                       void* stream) {
  return guarded("minuet_execution_prepare", [&]() -> llvm::Error {
    MINUET_ASSIGN(NetworkExecution * network, network_of(execution));
    if (count > 0) MINUET_TRY(check_pointer(coordinates, "coordinates"));
    MINUET_TRY(check_alignment(coordinates, sizeof(int32_t), "the coordinates"));
    const Trace::Span span(execution->trace(), "run", "prepare");
    return network->prepare(coordinates, count, stream);
  });
}

minuet_status minuet_execution_output_shape(minuet_execution* execution, int64_t* rows, int32_t* channels) {
  return guarded("minuet_execution_output_shape", [&]() -> llvm::Error {
    MINUET_ASSIGN(NetworkExecution * network, network_of(execution));
    MINUET_TRY(check_pointer(rows, "rows"));
    MINUET_TRY(check_pointer(channels, "channels"));
    MINUET_TRY(network->check_prepared());
    const NetworkProgram& program = network->plan().program;
    *rows = network->output_rows();
    *channels = program.tensors[program.output].channels;
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_run(minuet_execution* execution, const void* features, void* output,
                                   void* stream) {
  return guarded("minuet_execution_run", [&]() -> llvm::Error {
    MINUET_ASSIGN(NetworkExecution * network, network_of(execution));
    if (network->prepared() && network->output_rows() > 0) {
      MINUET_TRY(check_pointer(features, "features"));
      MINUET_TRY(check_pointer(output, "output"));
    }
    const Trace::Span span(execution->trace(), "run", "run");
    return network->run(features, output, stream);
  });
}

minuet_status minuet_execution_output_coordinates(minuet_execution* execution, int32_t* coordinates,
                                                  void* stream) {
  return guarded("minuet_execution_output_coordinates", [&]() -> llvm::Error {
    MINUET_ASSIGN(NetworkExecution * network, network_of(execution));
    if (network->prepared() && network->output_rows() > 0)
      MINUET_TRY(check_pointer(coordinates, "coordinates"));
    MINUET_TRY(check_alignment(coordinates, sizeof(int32_t), "the coordinates"));
    return network->output_coordinates(coordinates, stream);
  });
}

minuet_status minuet_execution_prepare_map(minuet_execution* execution, minuet_kernel_map* map,
                                           void* stream) {
  return guarded("minuet_execution_prepare_map", [&]() -> llvm::Error {
    MINUET_ASSIGN(ConvolutionExecution * convolution, convolution_of(execution));
    MINUET_TRY(check_pointer(map, "map"));
    return convolution->prepare_map(map->map, stream);
  });
}

minuet_status minuet_execution_convolve(minuet_execution* execution, const void* input, const void* residual,
                                        void* output, void* stream) {
  return guarded("minuet_execution_convolve", [&]() -> llvm::Error {
    MINUET_ASSIGN(ConvolutionExecution * convolution, convolution_of(execution));
    const KernelMap* map = convolution->map();
    if (map && map->input().rows() > 0) MINUET_TRY(check_pointer(input, "input"));
    if (map && map->output().rows() > 0) MINUET_TRY(check_pointer(output, "output"));
    return convolution->run(input, residual, output, stream);
  });
}

minuet_status minuet_execution_query_counters(minuet_execution* execution,
                                              minuet_execution_counters* counters) {
  return guarded("minuet_execution_query_counters", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(execution, "execution"));
    const EngineCounters& seen = execution->engine().counters();
    const i64 workspace = execution->network ? execution->network->workspace_bytes()
                                             : execution->convolution->workspace_bytes();
    const i64 growths =
        execution->network ? execution->network->growths() : execution->convolution->growths();
    minuet_execution_counters answer = MINUET_EXECUTION_COUNTERS_INIT;
    answer.kernels = seen.kernels;
    answer.copies = seen.copies;
    answer.fills = seen.fills;
    answer.matmuls = seen.matmuls;
    answer.host_syncs = seen.host_syncs;
    answer.allocations = seen.allocations + growths;
    answer.workspace_bytes = workspace;
    return write_info(answer, counters);
  });
}

minuet_status minuet_execution_reset_counters(minuet_execution* execution) {
  return guarded("minuet_execution_reset_counters", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(execution, "execution"));
    execution->engine().reset_counters();
    execution->network ? execution->network->reset_growths() : execution->convolution->reset_growths();
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_set_profiling(minuet_execution* execution, int32_t on) {
  return guarded("minuet_execution_set_profiling", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(execution, "execution"));
    execution->engine().set_profiling(on != 0);
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_query_stages(minuet_execution* execution, minuet_stage_times* times) {
  return guarded("minuet_execution_query_stages", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(execution, "execution"));
    MINUET_TRY(check_pointer(times, "times"));
    MINUET_ASSIGN(const StageTimes stages, execution->engine().stage_times());
    return write_info({0, stages.sort, stages.map, stages.gather, stages.gemm, stages.scatter, stages.other},
                      times);
  });
}

minuet_status minuet_execution_query_level(minuet_execution* execution, int32_t level,
                                           minuet_level_info* info) {
  return guarded("minuet_execution_query_level", [&]() -> llvm::Error {
    MINUET_ASSIGN(NetworkExecution * network, network_of(execution));
    const std::vector<LevelSpec>& levels = network->plan().program.levels;
    if (level < 0 || level >= static_cast<i32>(levels.size())) {
      return make_error(StatusCode::OutOfRange, "there is no level {0}; the network has {1}", level,
                        levels.size());
    }
    minuet_level_info answer{};
    std::copy(levels[level].tensor_stride.begin(), levels[level].tensor_stride.end(), answer.tensor_stride);
    answer.voxels = network->prepared() ? network->level_rows(level) : 0;
    return write_info(answer, info);
  });
}

minuet_status minuet_execution_query_layer(minuet_execution* execution, int32_t layer,
                                           minuet_layer_info* info) {
  return guarded("minuet_execution_query_layer", [&]() -> llvm::Error {
    MINUET_ASSIGN(NetworkExecution * network, network_of(execution));
    const i32 layers = static_cast<i32>(network->plan().program.layers.size());
    if (layer < 0 || layer >= layers) {
      return make_error(StatusCode::OutOfRange, "there is no layer {0}; the network has {1}", layer, layers);
    }
    return write_info(layer_info(*network, layer), info);
  });
}

minuet_status minuet_execution_largest_activation(minuet_execution* execution, const void* features,
                                                  void* stream, double* largest) {
  return guarded("minuet_execution_largest_activation", [&]() -> llvm::Error {
    MINUET_ASSIGN(NetworkExecution * network, network_of(execution));
    MINUET_TRY(check_pointer(largest, "largest"));
    if (network->prepared() && network->level_rows(0) > 0) MINUET_TRY(check_pointer(features, "features"));
    MINUET_TRY(check_alignment(features, kVectorAlignment, "the features"));
    MINUET_ASSIGN(*largest, network->largest_activation(features, stream));
    return llvm::Error::success();
  });
}

}  // extern "C"
