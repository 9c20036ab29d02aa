// `minuet run` runs a network on a cloud, writes features or labels, and reports shapes and times.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "minuet/points.h"
#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/commands/run_outputs.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/library/further_inputs.h"
#include "tools/minuet/library/networks.h"
#include "tools/minuet/library/outputs.h"
#include "tools/minuet/library/replay.h"
#include "tools/minuet/library/report.h"
#include "tools/minuet/library/tensors.h"
#include "tools/minuet/library/voxelizer.h"
#include "tools/minuet/library/weights_snapshot.h"

namespace minuet::tool {
namespace {

/// Holds a network that is opened on a device. Members are released in reverse order, so the execution is
/// released before the device.
struct NetworkSession : Session {
  ExecutionChoice choice;
  minuet_dtype dtype = MINUET_F32;
  PlanHandle network;
  minuet_plan_info info = {};
  bool takes_points = false;             ///< Is set by read_further_inputs().
  std::string weights_sha256;            ///< This digest is empty if the weights are random.
  std::optional<FurtherInputs> further;  ///< Is set by read_further_inputs().
  ExecutionHandle execution;
};

llvm::Expected<NetworkSession> open_network_session(const Arguments& arguments) {
  NetworkSession session;
  session.choice = arguments.execution;
  const bool has_trace = !arguments.trace.empty();
  MINUET_ASSIGN(static_cast<Session&>(session), open_session({arguments.cache, has_trace}, arguments.device));
  if (arguments.tuned) MINUET_TRY(load_tuning(session));
  MINUET_ASSIGN(session.dtype, dtype_for(arguments.dtype, session.facts.is_cpu()));
  NetworkChoice choice = arguments.network;
  if (choice.weights.empty()) {
    MINUET_ASSIGN(session.network, open_network(session.context.get(), choice, session.dtype, session.info));
  } else {
    MINUET_ASSIGN(const WeightsSnapshot weights, read_weights(choice.weights));
    choice.weights = weights.path;
    llvm::Expected<PlanHandle> network =
        open_network(session.context.get(), choice, session.dtype, session.info);
    if (!network) return about_file(weights.path, arguments.network.weights, network.takeError());
    session.network = std::move(*network);
    session.weights_sha256 = weights.sha256;
  }
  if (arguments.tuned) MINUET_TRY(check_tuned(session.network.get()));
  return session;
}

/// Compiles, loads and runs the network once, so that report.first_ms covers all the work of a cold process.
llvm::Expected<Outputs> first_inference(NetworkSession& session, const DeviceCloud& cloud, RunReport& report,
                                        Progress& progress) {
  const Clock::time_point start = Clock::now();
  progress.say(kFindingKernels);
  MINUET_TRY(compile_network(session.network.get(), session.facts.arch, report.kernel_list));
  MINUET_TRY(check(minuet_plan_load(session.network.get(), session.device.get())));
  MINUET_ASSIGN(session.execution, open_execution(session.network.get(), session.device.get(),
                                                  cloud.features.rows, session.choice));
  minuet_execution* const execution = session.execution.get();
  // Profiling stays off on a GPU, where it would put events between the stages. On the CPU it costs nothing.
  MINUET_TRY(check(minuet_execution_set_profiling(execution, session.facts.is_cpu())));
  progress.say("the first inference");
  const Clock::time_point inference = Clock::now();
  MINUET_TRY(prepare(execution, cloud));
  MINUET_ASSIGN(Outputs outputs,
                Outputs::create(session.network.get(), session.device.get(), session.choice.batch_size));
  MINUET_TRY(session.further->check_rows(execution, cloud.features.rows));
  MINUET_TRY(outputs.run(execution, cloud, session.further->arrays()));
  MINUET_TRY(check(minuet_device_synchronize(session.device.get(), nullptr)));
  report.first_ms += milliseconds_since(start);
  report.total_ms = milliseconds_since(inference);
  return outputs;
}

llvm::Expected<std::vector<double>> time_replays(NetworkSession& session, const VoxelCloud& voxels,
                                                 int repeats, Progress& progress) {
  Replay replay(session.network.get(), session.info, session.device.get(), session.facts, session.dtype,
                session.choice);
  MINUET_TRY(replay.learn(voxels));
  std::vector<double> times;
  // Inference -1 is a warm-up: before it, the buffers of fixed sizes and the CUDA graph are created. Its time
  // is not recorded.
  for (int i = -1; i < repeats; ++i) {
    MINUET_ASSIGN(const ReplayResult replayed, replay.infer(voxels));
    if (i >= 0) times.push_back(replayed.ms);
    progress.step(i + 1, repeats);
  }
  return times;
}

/// Times `repeats` inferences. With --replay these have buffers of fixed sizes (library/replay.h), but the
/// counters and stages of the report always come from inferences with exact sizes.
llvm::Error time_repeats(NetworkSession& session, const VoxelCloud& voxels, const DeviceCloud& cloud,
                         Outputs& outputs, int repeats, RunReport& report, Progress& progress) {
  minuet_execution* const execution = session.execution.get();
  if (repeats == 0) return check(minuet_execution_query_stages(execution, &report.stages));
  std::vector<double> times;
  const int exact = session.choice.replay ? 1 : repeats;
  progress.step(0, exact);
  for (int i = 0; i < exact; ++i) {
    MINUET_TRY(check(minuet_execution_reset_counters(execution)));
    const Clock::time_point start = Clock::now();
    MINUET_TRY(infer(execution, session.device.get(), cloud, outputs, session.further->arrays()));
    times.push_back(milliseconds_since(start));
    progress.step(i + 1, exact);
  }
  if (session.choice.replay) {
    MINUET_ASSIGN(times, time_replays(session, voxels, repeats, progress));
    report.is_replay = true;
  }
  report.repeats = repeats;
  report.total_ms = median(times);
  MINUET_TRY(check(minuet_execution_query_counters(execution, &report.counters)));
  if (!session.facts.is_cpu()) {
    MINUET_TRY(check(minuet_execution_set_profiling(execution, 1)));
    MINUET_TRY(infer(execution, session.device.get(), cloud, outputs, session.further->arrays()));
  }
  return check(minuet_execution_query_stages(execution, &report.stages));
}

/// Reads the files of the network's inputs after the first.
llvm::Error read_further_inputs(NetworkSession& session, const Arguments& arguments) {
  MINUET_ASSIGN(const std::vector<minuet_tensor_info> all, query_inputs(session.network.get()));
  session.takes_points = takes_points(all);
  const size_t own = all.size() - (session.takes_points ? kPointInputs : 0);
  if (session.choice.replay && own > 1) {
    return bad_input("--replay is for networks of one input, but {0} has {1}: omit --replay",
                     session.info.name, own);
  }
  MINUET_ASSIGN(const std::vector<TensorFile> files, parse_tensor_files("--input-of", arguments.input_of));
  MINUET_ASSIGN(FurtherInputs inputs,
                FurtherInputs::read(session.network.get(), session.device.get(), session.dtype, files));
  session.further.emplace(std::move(inputs));
  return llvm::Error::success();
}

std::vector<float> decode_integers(const std::vector<char>& bytes) {
  std::vector<int32_t> integers(bytes.size() / sizeof(int32_t));
  std::memcpy(integers.data(), bytes.data(), bytes.size());
  return {integers.begin(), integers.end()};
}

/// Copies an output to the host. `with_coordinates` must be false for a dense tensor.
llvm::Expected<Output> fetch_output(NetworkSession& session, const Outputs& outputs, size_t index,
                                    bool with_coordinates) {
  const minuet_array& array = outputs.arrays()[index];
  Output output;
  output.shape.assign(array.shape, array.shape + array.rank);
  MINUET_ASSIGN(const std::vector<char> bytes, outputs.read(index));
  output.holds_integers = array.element == MINUET_ELEMENT_I32;
  output.features = output.holds_integers ? decode_integers(bytes) : decode(bytes, session.dtype);
  output.is_of_points = is_of_points(outputs.infos()[index]);
  if (!with_coordinates) return output;
  for (int32_t axis = 0; axis < session.info.ndim; ++axis) {
    if ((outputs.infos()[index].axes >> axis & 1) != 0) output.axes.push_back(axis);
  }
  output.coordinates.resize(static_cast<size_t>(output.rows()) * (1 + output.axes.size()));
  MINUET_ASSIGN(const DeviceBuffer rows,
                DeviceBuffer::allocate(session.device.get(), 4 * output.coordinates.size()));
  MINUET_TRY(check(minuet_execution_output_coordinates_of(
      session.execution.get(), static_cast<int32_t>(index), static_cast<int32_t*>(rows.get()), nullptr)));
  MINUET_TRY(check(minuet_device_synchronize(session.device.get(), nullptr)));
  MINUET_TRY(rows.download(output.coordinates.data()));
  return output;
}

/// Copies all outputs to the host, with the coordinates that are written.
llvm::Expected<std::vector<Output>> fetch_outputs(NetworkSession& session, const Outputs& outputs,
                                                  const RunOutputs& files) {
  std::vector<Output> fetched;
  for (size_t i = 0; i < outputs.infos().size(); ++i) {
    const bool with_coordinates =
        files.needs_coordinates(i) && !is_dense(outputs.infos()[i]) && !is_of_points(outputs.infos()[i]);
    MINUET_ASSIGN(Output output, fetch_output(session, outputs, i, with_coordinates));
    fetched.push_back(std::move(output));
  }
  return fetched;
}

/// Adds the network's inputs and outputs to the report.
llvm::Error describe_tensors(const NetworkSession& session, const DeviceCloud& cloud, const Outputs& outputs,
                             const std::vector<Output>& fetched, RunReport& report) {
  MINUET_ASSIGN(const std::vector<minuet_tensor_info> inputs, query_inputs(session.network.get()));
  for (size_t i = 0; i <= session.further->arrays().size(); ++i) {
    const int64_t rows = i == 0 ? cloud.features.rows : session.further->arrays()[i - 1].shape[0];
    report.inputs.push_back({inputs[i].name, inputs[i].level, {rows, inputs[i].channels}, 0});
  }
  for (size_t i = 0; i < fetched.size(); ++i) {
    const minuet_tensor_info& info = outputs.infos()[i];
    report.outputs.push_back({info.name, info.level, fetched[i].shape, count_non_finite(fetched[i])});
  }
  return llvm::Error::success();
}

/// Fills in the parts of the report that are known before the inference: device, network, weights and cloud.
RunReport describe(const Arguments& arguments, const NetworkSession& session, const Input& input) {
  RunReport report;
  report.device = session.facts;
  report.network = session.info;
  report.weights_file = arguments.network.weights;
  report.weights_order = arguments.network.weights_order;
  report.weights_seed = arguments.network.weights_seed;
  report.weights_sha256 = session.weights_sha256;
  const InputOptions& options = arguments.input;
  if (!options.synthetic.empty()) report.cloud_seed = options.seed;
  report.cloud = !options.synthetic.empty()     ? "generated: " + options.synthetic
                 : !options.coordinates.empty() ? options.coordinates
                                                : options.cloud;
  report.columns = input.cloud.columns;
  report.frame = input.frame;
  report.is_voxelized = !input.cloud.is_voxels;
  report.grid = input.grid;
  report.outside = input.voxels.outside;
  report.past_points = input.voxels.past_points;
  report.past_voxels = input.voxels.past_voxels;
  report.points = input.voxels.points;
  report.skipped = input.voxels.skipped;
  report.voxelize_ms = input.voxelize_ms;
  report.first_ms = input.voxels.load_ms;
  report.takes_points = session.takes_points;
  return report;
}

/// Fills in the numbers of voxels and of dropped points.
llvm::Error count_voxels(const NetworkSession& session, RunReport& report) {
  const auto level = static_cast<size_t>(voxel_level(session.takes_points));
  report.voxels = report.levels[level].voxels;  // Duplicates are not among them.
  if (!session.takes_points) return llvm::Error::success();
  int32_t counts[MINUET_VOXELIZE_COUNTS] = {};
  MINUET_TRY(
      check(minuet_execution_read_points(session.execution.get(), counts, MINUET_VOXELIZE_COUNTS, nullptr)));
  report.outside = counts[MINUET_VOXELIZE_OUTSIDE] + counts[MINUET_VOXELIZE_NOT_FINITE];
  report.past_points = counts[MINUET_VOXELIZE_PAST_POINTS];
  report.past_voxels = counts[MINUET_VOXELIZE_PAST_VOXELS];
  return llvm::Error::success();
}

/// Warns if a layer's output overflowed. The final output does not always show this, because a following ReLU
/// may hide it.
llvm::Error check_overflow(const NetworkSession& session, RunReport& report) {
  int32_t layer = -1;
  MINUET_TRY(check(minuet_execution_find_overflow(session.execution.get(), nullptr, &layer)));
  if (layer < 0) return llvm::Error::success();
  report.overflow = report.layers[static_cast<size_t>(layer)].name;
  std::fprintf(stderr,
               "minuet: the layer %s gives numbers that are infinite or NaN (the largest %s number is %s), "
               "so the output means nothing: use another --dtype\n",
               report.overflow.c_str(), dtype_name(session.dtype),
               digits(static_cast<double>(dtype_largest(session.dtype))).c_str());
  return llvm::Error::success();
}

/// Returns the times of the stages and layers on a GPU. Returns nothing for the CPU, because the trace
/// already has its times.
std::optional<DeviceTimes> device_times(const RunReport& report) {
  if (report.device.is_cpu()) return std::nullopt;
  DeviceTimes times{report.stages.sort, report.stages.map, {}, report.stages.other};
  for (const minuet_layer_info& layer : report.layers)
    times.layers.push_back({layer.name, layer.gather, layer.gemm, layer.scatter});
  return times;
}

/// Warns about each output that has NaN or infinite numbers. `labels` tells whether the first output is
/// written as labels.
void warn_of_non_finite(const RunReport& report, bool labels) {
  for (const TensorReport& output : report.outputs) {
    if (output.non_finite == 0) continue;
    int64_t all = 1;
    for (const int64_t extent : output.shape) all *= extent;
    const bool is_first = &output == &report.outputs.front();
    const std::string name = report.outputs.size() == 1 ? "" : " '" + escaped(output.name) + "'";
    std::fprintf(stderr, "minuet: %lld of %lld numbers of the output%s are NaN or infinite%s\n",
                 static_cast<long long>(output.non_finite), static_cast<long long>(all), name.c_str(),
                 labels && is_first ? "; voxels with such numbers are labelled -1" : "");
  }
}

llvm::Error print_report(const Arguments& arguments, const RunReport& report, RunOutputs& files) {
  MINUET_TRY(files.write_report(to_json(report)));
  if (arguments.json == "-") return llvm::Error::success();
  print_tables(report, llvm::outs());
  if (arguments.list_kernels) print_kernels(report.kernel_list, llvm::outs());
  return llvm::Error::success();
}

void list_networks(llvm::raw_ostream& out) {
  for (const minuet_shipped_network_info& network : shipped_networks())
    out << llvm::formatv("{0,-22} {1}\n", network.name, network.summary);
}

}  // namespace

llvm::Error run_command(const Arguments& given) {
  MINUET_TRY(check_run(given));
  if (given.list_networks) {
    list_networks(llvm::outs());
    return llvm::Error::success();
  }
  Arguments arguments = given;
  MINUET_TRY(use_grid(arguments.network, arguments.input));
  MINUET_ASSIGN(RunOutputs files, RunOutputs::open(arguments));
  std::optional<Progress> progress("opening the device and the weights");
  MINUET_ASSIGN(NetworkSession session, open_network_session(arguments));
  MINUET_ASSIGN(const std::vector<minuet_tensor_info> infos, query_outputs(session.network.get()));
  MINUET_TRY(files.find(infos));
  MINUET_TRY(read_further_inputs(session, arguments));
  progress->say("reading the cloud");
  MINUET_ASSIGN(const Input input, load_input(arguments.input, session.info, voxelizer_of(session)));
  MINUET_TRY(files.check(input, session.info, infos.front()));
  const VoxelCloud& voxels = input.voxels;
  if (arguments.network.needs_batch_size) {
    MINUET_ASSIGN(session.choice.batch_size, find_batch_size(voxels));
  }
  MINUET_ASSIGN(const DeviceCloud cloud, upload_cloud(session.device.get(), voxels, session.dtype));

  RunReport report = describe(arguments, session, input);
  MINUET_ASSIGN(Outputs outputs, first_inference(session, cloud, report, *progress));
  progress->say("warm inferences");
  const bool few = session.facts.is_cpu() && !arguments.execution.replay;
  const int repeats = arguments.repeat > 0 ? arguments.repeat : few ? 0 : 10;
  MINUET_TRY(time_repeats(session, voxels, cloud, outputs, repeats, report, *progress));
  MINUET_TRY(query_shapes(session.execution.get(), session.info, report));
  MINUET_TRY(count_voxels(session, report));
  MINUET_TRY(check(minuet_context_kernel_counters(session.context.get(), &report.kernels)));
  MINUET_ASSIGN(std::vector<Output> fetched, fetch_outputs(session, outputs, files));
  MINUET_TRY(check_overflow(session, report));
  MINUET_TRY(describe_tensors(session, cloud, outputs, fetched, report));
  progress.reset();
  warn_of_non_finite(report, arguments.labels);
  MINUET_TRY(files.write_trace(session.context.get(), device_times(report)));
  const minuet_level_info& level = report.levels[static_cast<size_t>(session.info.output_level)];
  for (size_t i = 0; i < fetched.size(); ++i) MINUET_TRY(files.write_named(i, fetched[i], input));
  MINUET_TRY(files.write(input, session.info, level.tensor_stride, std::move(fetched.front())));
  return print_report(arguments, report, files);
}

}  // namespace minuet::tool
