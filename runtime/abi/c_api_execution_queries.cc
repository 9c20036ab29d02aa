// Implements the functions of the C ABI that tell something about an execution.
#include "runtime/abi/c_api_internal.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

llvm::Expected<minuet_layer_info> layer_info(PlanExecution& execution, i32 number) {
  const ProgramLayer& layer = execution.plan().program.layers[number];
  const OperandShape shape = layer.problem.kind().shape(layer.problem);
  minuet_layer_info info{};
  info.name = layer.name.c_str();
  if (const WindowProblem* const window = layer.window()) {
    std::copy(window->kernel_size.begin(), window->kernel_size.end(), info.kernel_size);
    std::copy(window->stride.begin(), window->stride.end(), info.stride);
    info.offset_count = static_cast<int64_t>(window->offsets.size());
  }
  info.in_channels = shape.in_channels;
  info.out_channels = shape.out_channels;
  info.transposed = layer.is_transposed();
  info.is_int8 = layer.is_int8 ? 1 : 0;
  MINUET_ASSIGN(info.pairs, execution.layer_pairs(number));
  info.kernel = "";
  if (const Candidate* const selected = execution.selected(number)) {
    const std::optional<Dataflow> dataflow = dataflow_of(selected->choice);
    // If a convolution computes this chain of pointwise steps, `selected` is the convolution's candidate.
    const bool is_convolution = convolution_of(layer) != nullptr;
    info.dataflow = is_convolution && dataflow ? 1 + static_cast<int32_t>(*dataflow) : 0;
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

minuet_status minuet_execution_query(minuet_execution* execution, minuet_execution_info* info) {
  return in_execution("minuet_execution_query", execution, [&](PlanExecution& own) -> llvm::Error {
    minuet_execution_info answer = MINUET_EXECUTION_INFO_INIT;
    answer.has_capacities = own.has_capacities();
    answer.run_capturable = own.can_capture_run();
    answer.prepare_capturable = own.can_capture_prepare();
    if (const auto method = own.find_map_method()) answer.map_method = 1 + static_cast<int32_t>(*method);
    answer.workspace_bytes = own.needed_bytes();
    return write_info(answer, info, "info");
  });
}

minuet_status minuet_execution_query_counters(minuet_execution* execution,
                                              minuet_execution_counters* counters) {
  return in_execution("minuet_execution_query_counters", execution, [&](PlanExecution& own) -> llvm::Error {
    const EngineCounters seen = own.counters();
    minuet_execution_counters answer = MINUET_EXECUTION_COUNTERS_INIT;
    answer.kernels = seen.kernels;
    answer.copies = seen.copies;
    answer.fills = seen.fills;
    answer.matmuls = seen.matmuls;
    answer.host_syncs = seen.host_syncs;
    answer.allocations = seen.allocations;
    answer.workspace_bytes = own.workspace_bytes();
    answer.gemm_lookups = seen.gemm_lookups;
    return write_info(answer, counters, "counters");
  });
}

minuet_status minuet_execution_reset_counters(minuet_execution* execution) {
  return in_execution("minuet_execution_reset_counters", execution, [&](PlanExecution& own) -> llvm::Error {
    own.reset_counters();
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_set_profiling(minuet_execution* execution, int32_t on) {
  return in_execution("minuet_execution_set_profiling", execution, [&](PlanExecution& own) -> llvm::Error {
    own.set_profiling(on != 0);
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_query_stages(minuet_execution* execution, minuet_stage_times* times) {
  return in_execution("minuet_execution_query_stages", execution, [&](PlanExecution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(times, "times"));
    MINUET_ASSIGN(const StageTimes stages, own.query_times());
    return write_info({0, stages.sort, stages.map, stages.gather, stages.gemm, stages.scatter, stages.other},
                      times, "times");
  });
}

minuet_status minuet_execution_query_level(minuet_execution* execution, int32_t level,
                                           minuet_level_info* info) {
  return in_execution("minuet_execution_query_level", execution, [&](PlanExecution& own) -> llvm::Error {
    const std::vector<LevelSpec>& levels = own.plan().program.levels;
    if (level < 0 || level >= static_cast<i32>(levels.size())) {
      return make_error(StatusCode::OutOfRange,
                        "there is no level {0}; the plan has {1} levels, numbered from 0", level,
                        levels.size());
    }
    const bool prepared = own.knows_level(level);
    const Program& program = own.plan().program;
    const AxisArray& strides = prepared ? own.level(level).tensor_stride : levels[level].tensor_stride;
    const AxisArray stride = on_axes_of(program, level, strides, /*beyond=*/1);
    minuet_level_info answer{};
    answer.ndim = static_cast<int32_t>(axes_of(program, level).size());
    std::copy(stride.begin(), stride.end(), answer.tensor_stride);
    answer.voxels = prepared ? own.level(level).rows : 0;
    const std::optional<MapMethod> method = own.find_map_method();
    if (prepared && method) answer.map_method = 1 + static_cast<int32_t>(*method);
    return write_info(answer, info, "info");
  });
}

minuet_status minuet_execution_query_layer(minuet_execution* execution, int32_t layer,
                                           minuet_layer_info* info) {
  return in_execution("minuet_execution_query_layer", execution, [&](PlanExecution& own) -> llvm::Error {
    const i32 layers = static_cast<i32>(own.plan().program.layers.size());
    if (layer < 0 || layer >= layers) {
      return make_error(StatusCode::OutOfRange,
                        "there is no layer {0}; the plan has {1} layers, numbered from 0", layer, layers);
    }
    MINUET_ASSIGN(const minuet_layer_info answer, layer_info(own, layer));
    return write_info(answer, info, "info");
  });
}

minuet_status minuet_execution_find_overflow(minuet_execution* execution, void* stream, int32_t* layer) {
  return in_execution("minuet_execution_find_overflow", execution, [&](PlanExecution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(layer, "layer"));
    MINUET_ASSIGN(*layer, own.find_overflow(stream));
    return llvm::Error::success();
  });
}

minuet_status minuet_execution_read_points(minuet_execution* execution, int32_t* counts, int32_t count,
                                           void* stream) {
  return in_execution("minuet_execution_read_points", execution, [&](PlanExecution& own) -> llvm::Error {
    if (count < 0 || count > MINUET_VOXELIZE_COUNTS) {
      return make_error(StatusCode::InvalidArgument, "count is {0}; it must be 0 to {1}", count,
                        static_cast<int>(MINUET_VOXELIZE_COUNTS));
    }
    if (count > 0) MINUET_TRY(check_pointer(counts, "counts"));
    return own.read_points({counts, static_cast<std::size_t>(count)}, stream);
  });
}
}
