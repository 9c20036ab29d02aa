// Implements the function of the C ABI that tells the size of a workspace before there is an execution.
#include <algorithm>

#include "runtime/abi/c_api_internal.h"

namespace minuet {
namespace {

/// Returns InvalidArgument if the option `name` is set. `why` says why it must not be.
llvm::Error refuse(bool is_set, const char* name, const char* why) {
  if (!is_set) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} is set, but {1}: leave it 0", name, why);
}

/// Returns InvalidArgument if the options give memory, or objects of a device.
llvm::Error check_sizes_alone(const minuet_execution_options& given) {
  constexpr const char* kAsked = "the size of the workspace is what is asked for";
  MINUET_TRY(refuse(given.workspace != nullptr, "workspace", kAsked));
  MINUET_TRY(refuse(given.workspace_bytes != 0, "workspace_bytes", kAsked));
  MINUET_TRY(refuse(given.defer_workspace != 0, "defer_workspace", kAsked));
  MINUET_TRY(refuse(given.queue != nullptr, "queue",
                    "the size is that of an execution without one (an execution with a queue needs less)"));
  return refuse(given.parameters != nullptr, "parameters",
                "values belong to a device and do not change the size");
}

llvm::Expected<i64> bytes_within_capacities(std::shared_ptr<const LoadedPlan> measured,
                                            const ExecutionOptions& options, i64 max_points,
                                            double max_neighbours) {
  if (max_points != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "the argument max_points is {0}; it must be 0, because the options give level_capacity",
                      max_points);
  }
  if (max_neighbours != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "the argument max_neighbours is {0}; it must be 0, because with level_capacity the "
                      "memory suffices for any number of neighbours",
                      number_text(max_neighbours));
  }
  return Execution::workspace_within_capacities(std::move(measured), options);
}

/// Returns a size that suffices for each of the methods. Sorted maps need tables of rows, and indexed ones an
/// index, so that either method may need more memory.
llvm::Expected<i64> bytes_of_clouds(const std::shared_ptr<const LoadedPlan>& measured,
                                    ExecutionOptions options, llvm::ArrayRef<MapMethod> methods,
                                    i64 max_points, double max_neighbours) {
  if (!(max_neighbours >= 1)) {
    return make_error(
        StatusCode::InvalidArgument,
        "max_neighbours is {0}; it must be 1 or more, because a voxel counts as its own neighbour",
        number_text(max_neighbours));
  }
  i64 bytes = 0;
  for (const MapMethod method : methods) {
    options.cloud.method = method;
    llvm::Expected<i64> bound = Execution::workspace_bound(measured, options, max_points, max_neighbours);
    if (!bound) return annotate(bound.takeError(), "max_points");
    bytes = std::max(bytes, *bound);
  }
  return bytes;
}

}  // namespace

llvm::Expected<std::shared_ptr<Device>> measured_device(const std::string& arch, i32 cpu_threads) {
  if (arch.empty()) return open_cpu_device(cpu_threads);
  return measured_gpu(arch);
}

}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_plan_workspace_bytes(minuet_plan* plan, const char* arch,
                                          const minuet_execution_options* options, int64_t max_points,
                                          double max_neighbours, int64_t* bytes) {
  return guarded("minuet_plan_workspace_bytes", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_ASSIGN(const std::string known, read_arch(arch));
    MINUET_TRY(check_pointer(bytes, "bytes"));
    MINUET_ASSIGN(const minuet_execution_options given,
                  read_options(options, minuet_execution_options(MINUET_EXECUTION_OPTIONS_INIT)));
    MINUET_TRY(check_sizes_alone(given));
    if (has_stages(plan->store->plan().program)) {
      return make_error(StatusCode::FailedPrecondition,
                        "the network makes levels in each run, and its executions take no workspace: they "
                        "allocate their memory themselves");
    }
    MINUET_ASSIGN(const ExecutionOptions read, read_size_options(given, plan->store->plan().program));
    MINUET_ASSIGN(std::shared_ptr<Device> device, measured_device(known, plan->cpu_threads));
    MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> measured, plan->store->measured_on(std::move(device)));
    if (read.cloud.has_capacities()) {
      MINUET_ASSIGN(*bytes, bytes_within_capacities(std::move(measured), read, max_points, max_neighbours));
      return llvm::Error::success();
    }
    std::vector<MapMethod> methods{read.cloud.method};
    if (given.map_method == MINUET_MAPS_AUTO) methods = {MapMethod::Sorted, MapMethod::Indexed};
    MINUET_ASSIGN(*bytes, bytes_of_clouds(measured, read, methods, max_points, max_neighbours));
    return llvm::Error::success();
  });
}
}
