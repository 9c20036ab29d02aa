// `minuet run`: a cloud in, features or labels and a report out.
#include <chrono>
#include <vector>

#include "tools/minuet/commands/commands.h"
#include "tools/minuet/convert.h"
#include "tools/minuet/error.h"
#include "tools/minuet/report.h"
#include "tools/minuet/writers/npy.h"
#include "tools/minuet/writers/ply.h"

namespace minuet::tool {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// One opened network on one device. Members are released in reverse order, buffers before the device.
struct Session {
  bool keep_first_duplicate = false;
  ContextHandle context;
  DeviceFacts facts;
  DeviceHandle device;
  minuet_dtype dtype = MINUET_F32;
  NetworkHandle network;
  minuet_network_info info = {};
  ExecutionHandle execution;
};

struct Output {
  int64_t rows = 0;
  int32_t channels = 0;
  std::vector<float> features;       ///< [rows, channels]
  std::vector<int32_t> coordinates;  ///< [rows, 1 + ndim]
};

llvm::Expected<Session> open_session(const Arguments& arguments) {
  Session session;
  session.keep_first_duplicate = arguments.input.keep_first_duplicate;
  MINUET_ASSIGN(session.context, open_context({arguments.cache, !arguments.trace.empty()}));
  MINUET_ASSIGN(session.device, open_device(session.context.get(), arguments.device, session.facts));
  if (arguments.tuned) MINUET_TRY(use_tuning(session.context.get(), session.device.get()));
  MINUET_ASSIGN(session.dtype, dtype_for(arguments.dtype, session.facts.is_cpu()));
  MINUET_ASSIGN(session.network,
                open_network(session.context.get(), arguments.network, session.dtype, session.info));
  return session;
}

/// Compiles, loads and runs once: all that a cold process does.
llvm::Expected<DeviceBuffer> first_inference(Session& session, const DeviceBuffer& coordinates, int64_t count,
                                             const DeviceBuffer& features, RunReport& report,
                                             Output& output) {
  const Clock::time_point start = Clock::now();
  MINUET_TRY(compile_network(session.network.get(), session.facts.arch, report.kernel_list));
  MINUET_TRY(check(minuet_network_load(session.network.get(), session.device.get())));
  MINUET_ASSIGN(session.execution, open_execution(session.network.get(), session.device.get(), count,
                                                  session.keep_first_duplicate));
  minuet_execution* const execution = session.execution.get();
  // On the CPU the stages are timed anyway; on a GPU events would sit between them.
  MINUET_TRY(check(minuet_execution_set_profiling(execution, session.facts.is_cpu())));
  const auto* rows = static_cast<const int32_t*>(coordinates.get());
  MINUET_TRY(check(minuet_execution_prepare(execution, rows, count, nullptr)));
  MINUET_TRY(check(minuet_execution_output_shape(execution, &output.rows, &output.channels)));
  const size_t bytes = static_cast<size_t>(output.rows) * static_cast<size_t>(output.channels) *
                       static_cast<size_t>(dtype_bytes(session.dtype));
  MINUET_ASSIGN(DeviceBuffer memory, DeviceBuffer::allocate(session.device.get(), bytes));
  MINUET_TRY(check(minuet_execution_run(execution, features.get(), memory.get(), nullptr)));
  MINUET_TRY(check(minuet_device_synchronize(session.device.get(), nullptr)));
  report.first_ms = milliseconds_since(start);
  return memory;
}

llvm::Error time_repeats(Session& session, const DeviceBuffer& coordinates, int64_t count,
                         const DeviceBuffer& features, void* output, int repeats, RunReport& report) {
  minuet_execution* const execution = session.execution.get();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    MINUET_TRY(check(minuet_execution_reset_counters(execution)));
    const Clock::time_point start = Clock::now();
    MINUET_TRY(infer(execution, session.device.get(), coordinates, count, features, output));
    times.push_back(milliseconds_since(start));
  }
  report.repeats = repeats;
  report.total_ms = median(times);
  MINUET_TRY(check(minuet_execution_query_counters(execution, &report.counters)));
  if (!session.facts.is_cpu()) {
    MINUET_TRY(check(minuet_execution_set_profiling(execution, 1)));
    MINUET_TRY(infer(execution, session.device.get(), coordinates, count, features, output));
  }
  return check(minuet_execution_query_stages(execution, &report.stages));
}

llvm::Error fetch_output(Session& session, const DeviceBuffer& memory, Output& output) {
  std::vector<char> bytes(static_cast<size_t>(output.rows) * static_cast<size_t>(output.channels) *
                          static_cast<size_t>(dtype_bytes(session.dtype)));
  MINUET_TRY(memory.download(bytes.data()));
  output.features = decode(bytes, session.dtype);
  output.coordinates.resize(static_cast<size_t>(output.rows) * static_cast<size_t>(1 + session.info.ndim));
  MINUET_ASSIGN(const DeviceBuffer rows,
                DeviceBuffer::allocate(session.device.get(), 4 * output.coordinates.size()));
  MINUET_TRY(check(minuet_execution_output_coordinates(session.execution.get(),
                                                       static_cast<int32_t*>(rows.get()), nullptr)));
  MINUET_TRY(check(minuet_device_synchronize(session.device.get(), nullptr)));
  return rows.download(output.coordinates.data());
}

/// The channel of the largest feature; of equals the first.
std::vector<int32_t> labels_of(const Output& output) {
  std::vector<int32_t> labels(static_cast<size_t>(output.rows), 0);
  const auto channels = static_cast<size_t>(output.channels);
  for (size_t row = 0; row < labels.size(); ++row) {
    const float* features = output.features.data() + row * channels;
    for (size_t c = 1; c < channels; ++c) {
      if (features[c] > features[static_cast<size_t>(labels[row])]) labels[row] = static_cast<int32_t>(c);
    }
  }
  return labels;
}

/// Middles of the output voxels, in metres.
std::vector<std::array<float, 3>> positions_of(const Output& output, const Session& session,
                                               const int32_t* stride, float voxel_size) {
  std::vector<std::array<float, 3>> positions(static_cast<size_t>(output.rows), std::array<float, 3>{});
  const auto width = static_cast<size_t>(1 + session.info.ndim);
  for (size_t row = 0; row < positions.size(); ++row) {
    for (size_t axis = 0; axis < 3 && axis + 1 < width; ++axis) {
      const double middle = output.coordinates[row * width + 1 + axis] + 0.5 * stride[axis];
      positions[row][axis] = static_cast<float>(middle * static_cast<double>(voxel_size));
    }
  }
  return positions;
}

llvm::Error write_outputs(const Arguments& arguments, const Session& session, const Output& output,
                          const RunReport& report, float voxel_size) {
  if (!arguments.output_coordinates.empty()) {
    MINUET_TRY(
        write_npy(arguments.output_coordinates, output.coordinates, {output.rows, 1 + session.info.ndim}));
  }
  const llvm::StringRef path = arguments.output;
  if (path.empty()) return llvm::Error::success();
  if (path.take_back(4) == ".npy") {
    if (arguments.labels) return write_npy(path, labels_of(output), {output.rows});
    return write_npy(path, output.features, {output.rows, output.channels});
  }
  PlyTable table;
  const minuet_level_info& level = report.levels[static_cast<size_t>(session.info.output_level)];
  table.positions = positions_of(output, session, level.tensor_stride, voxel_size);
  table.labelled = arguments.labels;
  if (table.labelled) table.labels = labels_of(output);
  table.features = output.features;
  table.channels = output.channels;
  return write_ply(path, table);
}

llvm::Error write_report(const Arguments& arguments, const RunReport& report) {
  MINUET_TRY(write_json_file(arguments.json, to_json(report)));
  if (arguments.json == "-") return llvm::Error::success();
  print_tables(report, llvm::outs());
  if (arguments.list_kernels) print_kernels(report.kernel_list, llvm::outs());
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<minuet_dtype> dtype_for(const std::string& flag, bool is_cpu) {
  if (flag.empty()) return is_cpu ? MINUET_F32 : MINUET_F16;
  const std::optional<minuet_dtype> dtype = parse_dtype(flag);
  if (!dtype) return bad_input("the dtype '{0}' is none of fp32, tf32, fp16, bf16", flag);
  return *dtype;
}

llvm::Error run_command(const Arguments& arguments) {
  MINUET_ASSIGN(Session session, open_session(arguments));
  MINUET_ASSIGN(const Input input, load_input(arguments.input, session.info));
  const VoxelCloud& voxels = input.voxels;
  MINUET_ASSIGN(const std::vector<char> encoded, encode_features(voxels, session.dtype));
  MINUET_ASSIGN(
      const DeviceBuffer coordinates,
      DeviceBuffer::upload(session.device.get(), voxels.coordinates.data(), 4 * voxels.coordinates.size()));
  MINUET_ASSIGN(const DeviceBuffer features,
                DeviceBuffer::upload(session.device.get(), encoded.data(), encoded.size()));

  RunReport report;
  Output output;
  MINUET_ASSIGN(const DeviceBuffer memory,
                first_inference(session, coordinates, voxels.count(), features, report, output));
  const int repeats = arguments.repeat > 0 ? arguments.repeat : session.facts.is_cpu() ? 1 : 10;
  MINUET_TRY(time_repeats(session, coordinates, voxels.count(), features, memory.get(), repeats, report));
  report.device = session.facts;
  report.points = voxels.points;
  report.skipped = voxels.skipped;
  report.voxels = voxels.count();
  report.output_rows = output.rows;
  report.voxelize_ms = input.voxelize_ms;
  MINUET_TRY(query_shapes(session.execution.get(), session.info, report));
  MINUET_TRY(check(minuet_context_kernel_counters(session.context.get(), &report.kernels)));
  if (!arguments.trace.empty()) {
    MINUET_TRY(check(minuet_context_write_trace(session.context.get(), arguments.trace.c_str())));
  }
  if (!arguments.output.empty() || !arguments.output_coordinates.empty()) {
    MINUET_TRY(fetch_output(session, memory, output));
    MINUET_TRY(write_outputs(arguments, session, output, report, input.voxel_size));
  }
  return write_report(arguments, report);
}

}  // namespace minuet::tool
