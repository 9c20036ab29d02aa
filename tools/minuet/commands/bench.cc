// `minuet bench` measures the wall time of whole inferences. Each timed inference gets a cloud that no
// earlier inference had.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <vector>

#include "codegen/base/number_text.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/int8_text.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/cloud/bench_clouds.h"
#include "tools/minuet/commands/bench_replay.h"
#include "tools/minuet/commands/bench_training.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/library/networks.h"
#include "tools/minuet/library/outputs.h"
#include "tools/minuet/library/report.h"
#include "tools/minuet/library/tensors.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::tool {
namespace {

/// Holds one network in one dtype on one device, and the numbers of inferences.
struct Bench {
  minuet_context* context;
  minuet_device* device;
  const DeviceFacts& facts;
  minuet_dtype dtype;
  minuet_plan* network;
  const ExecutionChoice execution;
  minuet_plan_info info;
  int unthinned;  ///< Counts the rotated copies (variants) of a cloud that keep all points, for the warm-up.
  int warm_up, timed;
  const Voxelizer voxelizer;
  bool training;  ///< Tells whether steps of training are timed in place of inferences.
  int branches;   ///< Counts the branches of their backward passes, or is 0.
};

/// Returns `text` in lower case with underscores, for a file name: "NVIDIA H200" becomes "nvidia_h200".
std::string file_word(llvm::StringRef text) {
  std::string word;
  for (const char c : text) {
    if (llvm::isAlnum(c)) {
      word += llvm::toLower(c);
    } else if (!word.empty() && word.back() != '_') {
      word += '_';
    }
  }
  while (!word.empty() && word.back() == '_') word.pop_back();
  return word;
}

/// Uploads all variants (rotated copies) of a cloud. Those with all points come first, because they are the
/// largest, so that all buffers have grown before the timing starts.
llvm::Expected<std::vector<DeviceCloud>> upload_variants(const Bench& bench, const BenchCloud& cloud) {
  std::vector<DeviceCloud> variants;
  for (int i = 0; i < bench.unthinned + bench.timed; ++i) {
    MINUET_ASSIGN(const VoxelCloud voxels,
                  make_variant(cloud, i, /*thin=*/i >= bench.unthinned, bench.voxelizer));
    MINUET_ASSIGN(DeviceCloud variant, upload_cloud(bench.device, voxels, bench.dtype));
    variants.push_back(std::move(variant));
  }
  return variants;
}

struct Timing {
  std::vector<double> wall_ms;
  std::vector<int64_t> voxels;  ///< Counts the voxels of each timed inference.
  int64_t unthinned = 0;        ///< Counts the voxels of the variant with all points.
  std::vector<minuet_stage_times> stages;
  /// These counters are sums over all timed inferences.
  minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;
};

/// Counts the inferences of one cloud for the progress bar.
class Inferences {
 public:
  Inferences(Progress& progress, int64_t total) : progress_(progress), total_(total) {
    progress.step(0, total);
  }
  void count() { progress_.step(++done_, total_); }

 private:
  Progress& progress_;
  const int64_t total_;
  int64_t done_ = 0;
};

/// Returns the number of voxels of the inference that the execution has just made of this variant.
llvm::Expected<int64_t> count_voxels(minuet_execution* execution, const DeviceCloud& variant) {
  if (!variant.holds_points) return variant.features.rows;
  return tool::count_voxels(execution, voxel_level(/*takes_points=*/true));
}

llvm::Error warm_up(const Bench& bench, minuet_execution* execution, const std::vector<DeviceCloud>& variants,
                    Outputs& outputs, Inferences& inferences, Timing& timing) {
  for (int i = 0; i < bench.warm_up; ++i) {
    const DeviceCloud& variant = variants[static_cast<size_t>(i % bench.unthinned)];
    MINUET_TRY(infer(execution, bench.device, variant, outputs));
    if (i == 0) {
      MINUET_ASSIGN(timing.unthinned, count_voxels(execution, variant));
    }
    inferences.count();
  }
  return llvm::Error::success();
}

llvm::Expected<Timing> measure(const Bench& bench, minuet_execution* execution,
                               const std::vector<DeviceCloud>& variants, Outputs& outputs,
                               Progress& progress) {
  Timing timing;
  Inferences inferences(progress, 2 * int64_t{bench.warm_up + bench.timed});
  MINUET_TRY(warm_up(bench, execution, variants, outputs, inferences, timing));
  MINUET_TRY(check(minuet_execution_reset_counters(execution)));
  for (size_t i = static_cast<size_t>(bench.unthinned); i < variants.size(); ++i) {
    const DeviceCloud& variant = variants[i];
    const Clock::time_point start = Clock::now();
    MINUET_TRY(infer(execution, bench.device, variant, outputs));
    timing.wall_ms.push_back(milliseconds_since(start));
    inferences.count();
  }
  MINUET_TRY(check(minuet_execution_query_counters(execution, &timing.counters)));
  MINUET_TRY(check(minuet_execution_set_profiling(execution, 1)));
  // The first profiled pass creates the events that time the stages, so its times are not recorded.
  MINUET_TRY(warm_up(bench, execution, variants, outputs, inferences, timing));
  for (size_t i = static_cast<size_t>(bench.unthinned); i < variants.size(); ++i) {
    const DeviceCloud& variant = variants[i];
    MINUET_TRY(infer(execution, bench.device, variant, outputs));
    minuet_stage_times stages = MINUET_STAGE_TIMES_INIT;
    MINUET_TRY(check(minuet_execution_query_stages(execution, &stages)));
    timing.stages.push_back(stages);
    MINUET_ASSIGN(const int64_t voxels, count_voxels(execution, variant));
    timing.voxels.push_back(voxels);
    inferences.count();
  }
  return timing;
}

minuet_stage_times median_stages(const std::vector<minuet_stage_times>& all) {
  minuet_stage_times middle = MINUET_STAGE_TIMES_INIT;
  for (double minuet_stage_times::*stage :
       {&minuet_stage_times::sort, &minuet_stage_times::map, &minuet_stage_times::gather,
        &minuet_stage_times::gemm, &minuet_stage_times::scatter, &minuet_stage_times::other}) {
    std::vector<double> values;
    values.reserve(all.size());
    for (const minuet_stage_times& stages : all) values.push_back(stages.*stage);
    middle.*stage = median(values);
  }
  return middle;
}

llvm::json::Object counters_json(const minuet_execution_counters& sum, int64_t inferences) {
  const auto each = [&](int64_t value) {
    return static_cast<double>(value) / static_cast<double>(inferences);
  };
  return llvm::json::Object{{"kernels", each(sum.kernels)},    {"copies", each(sum.copies)},
                            {"fills", each(sum.fills)},        {"matmuls", each(sum.matmuls)},
                            {"launches", each(launches(sum))}, {"host_syncs", each(sum.host_syncs)},
                            {"allocations", sum.allocations},  {"workspace_bytes", sum.workspace_bytes},
                            {"gemm_lookups", sum.gemm_lookups}};
}

/// Returns the numbers of points of the variants, for a network that makes the voxels itself.
llvm::json::Object points_json(const Bench& bench, const std::vector<DeviceCloud>& variants) {
  std::vector<int64_t> points;
  points.reserve(variants.size());
  for (size_t i = static_cast<size_t>(bench.unthinned); i < variants.size(); ++i)
    points.push_back(variants[i].features.rows);
  const auto [least, greatest] = std::minmax_element(points.begin(), points.end());
  return llvm::json::Object{
      {"min", *least}, {"max", *greatest}, {"unthinned", variants.front().features.rows}};
}

llvm::json::Object cloud_json(const BenchCloud& cloud, const std::vector<DeviceCloud>& variants,
                              const Bench& bench, const Timing& timing, const RunReport& shapes) {
  int64_t pairs = 0, padded = 0, groups = 0;
  for (const minuet_layer_info& layer : shapes.layers) {
    pairs += layer.pairs;
    padded += layer.padded_rows;
    groups += layer.gemm_groups;
  }
  const auto [least, greatest] = std::minmax_element(timing.voxels.begin(), timing.voxels.end());
  llvm::json::Object entry = times_json(cloud, {timing.unthinned, *least, *greatest}, timing.wall_ms);
  if (cloud.own_voxels) entry["points"] = points_json(bench, variants);
  entry["stages_ms"] = stages_json(median_stages(timing.stages));
  entry["counters"] = counters_json(timing.counters, bench.timed);
  entry["pairs"] = pairs;
  entry["padded_rows"] = padded;
  entry["gemm_groups"] = groups;
  entry["levels"] = levels_json(shapes);
  return entry;
}

/// Prints one row of the table on stdout without delay, because the table grows while clouds are measured.
void print_row(llvm::StringRef cloud, llvm::StringRef voxels, llvm::StringRef median, llvm::StringRef p10,
               llvm::StringRef p90) {
  llvm::outs() << llvm::formatv("{0,-16} {1,10} {2,11} {3,10} {4,10}\n", cloud, voxels, median, p10, p90);
  llvm::outs().flush();
}

void print_times(const BenchCloud& cloud, int64_t voxels, const std::vector<double>& wall_ms) {
  print_row(cloud.name, std::to_string(voxels), milliseconds(median(wall_ms)),
            milliseconds(quantile(wall_ms, 0.1)), milliseconds(quantile(wall_ms, 0.9)));
}

llvm::Expected<llvm::json::Object> measure_replays(const Bench& bench, const BenchCloud& cloud) {
  std::optional<Progress> progress("measuring " + cloud.name);
  Replay replay(bench.network, bench.info, bench.device, bench.facts, bench.dtype, bench.execution);
  MINUET_ASSIGN(const ReplayTimes times,
                time_replays(replay, cloud, bench.voxelizer, bench.unthinned, bench.warm_up, bench.timed));
  progress.reset();
  print_times(cloud, times.voxels.greatest, times.wall_ms);
  if (times.did_not_fit > 0) {
    std::fprintf(
        stderr,
        "minuet: %s: %d of %d clouds did not fit the fixed buffer sizes and coordinate bounds of --replay "
        "(%s), so the network was run again on these clouds with exact sizes, and the fixed sizes and bounds "
        "were "
        "enlarged\n",
        cloud.name.c_str(), times.did_not_fit, bench.timed, status_text(times.status).c_str());
  }
  llvm::json::Object entry = times_json(cloud, times.voxels, times.wall_ms);
  entry["capacities"] = llvm::json::Array(replay.capacities());
  entry["did_not_fit"] = times.did_not_fit;
  return entry;
}

llvm::Expected<llvm::json::Object> measure_cloud(const Bench& bench, const BenchCloud& cloud) {
  if (bench.training) {
    return bench_training(
        {bench.context, bench.network, bench.info, bench.device, bench.facts, bench.dtype, bench.execution,
         bench.voxelizer, bench.unthinned, bench.warm_up, bench.timed, bench.branches},
        cloud);
  }
  if (bench.execution.replay) return measure_replays(bench, cloud);
  std::optional<Progress> progress("measuring " + cloud.name);
  MINUET_ASSIGN(const std::vector<DeviceCloud> variants, upload_variants(bench, cloud));
  int64_t most = 0;
  for (const DeviceCloud& variant : variants) most = std::max(most, variant.features.rows);
  MINUET_ASSIGN(const ExecutionHandle execution,
                open_execution(bench.network, bench.device, most, bench.execution));
  MINUET_ASSIGN(Outputs outputs, Outputs::create(bench.network, bench.device, bench.execution.batch_size));
  MINUET_ASSIGN(const Timing timing, measure(bench, execution.get(), variants, outputs, *progress));
  progress.reset();
  RunReport shapes;
  MINUET_TRY(query_shapes(execution.get(), bench.info, shapes));
  llvm::json::Object entry = cloud_json(cloud, variants, bench, timing, shapes);
  print_times(cloud, timing.voxels.back(), timing.wall_ms);
  return entry;
}

std::string training_method(const Bench& bench) {
  return std::string(
             "host clock, a whole step of training, from unsorted coordinates and features in device "
             "memory to the gradients of all parameters, ") +
         (bench.execution.replay && !bench.facts.is_cpu() ? "one replayed CUDA graph" : "no graph replay") +
         (bench.branches == 1 ? ", one branch in the backward pass" : "") + ", another cloud in each step";
}

llvm::Expected<llvm::json::Object> measure_all(const Arguments& arguments, const Bench& bench,
                                               const std::vector<BenchCloud>& all) {
  const bool own = !all.empty() && all.front().own_voxels.has_value();
  llvm::json::Array clouds, skipped;
  if (bench.training) {
    print_training_head();
  } else {
    print_row("cloud", "voxels", "median, ms", "p10", "p90");
  }
  for (const BenchCloud& cloud : all) {
    if (cloud.is_missing) {
      skipped.push_back(cloud.name);
      continue;
    }
    MINUET_ASSIGN(llvm::json::Object entry, in_file(cloud.name, measure_cloud(bench, cloud)));
    clouds.push_back(std::move(entry));
  }
  MINUET_ASSIGN(const minuet_system_info system, query_system());
  llvm::json::Object result{
      {"network", std::string(bench.info.name)},
      {"missing_head", bench.info.missing_head != 0},
      {"convolutions", bench.info.convolutions},
      {"int8_convolutions", bench.info.int8_convolutions},
      {"dtype", dtype_name(bench.dtype)},
      {"dataflow", arguments.network.dataflow.empty() ? "auto" : arguments.network.dataflow},
      {"maps", arguments.execution.maps.empty() ? "auto" : arguments.execution.maps},
      {"device", bench.facts.description},
      {"arch", bench.facts.arch},
      {"driver", std::string(system.driver)},
      {"toolkit", std::string(system.nvrtc)},
      {"version", version_text()},
      {"method", bench.training
                     ? training_method(bench)
                     : std::string("host clock, from ") +
                           (own ? "points" : "unsorted coordinates and features") +
                           " in device memory to the output, with all " + (own ? "voxels and " : "") +
                           "maps rebuilt, " +
                           (!bench.execution.replay ? "no graph replay"
                            : bench.facts.is_cpu()
                                ? "in capacity mode (buffers of fixed sizes)"
                                : "one replayed CUDA graph in capacity mode (buffers of fixed sizes)") +
                           ", another cloud in each inference"},
      {"clouds", std::move(clouds)},
      {"skipped", std::move(skipped)},
  };
  if (!arguments.commit.empty()) result["commit"] = arguments.commit;
  return result;
}

/// Describes one network in one dtype to measure, and holds the file for the result.
struct Measurement {
  std::string network;
  minuet_dtype dtype;
  std::string path;
  /// Refers to the file for the result, which is opened before anything is measured. Without --output there
  /// is no file.
  std::optional<OutputFile> file;
};

llvm::Expected<std::vector<Measurement>> plan_measurements(const Arguments& arguments, bool is_cpu) {
  const std::vector<std::string> networks = arguments.networks.empty()
                                                ? std::vector<std::string>{"minkunet42", "sparseresnet21d"}
                                                : arguments.networks;
  const std::vector<std::string> dtypes =
      arguments.dtypes.empty() ? std::vector<std::string>{""} : arguments.dtypes;
  const bool is_folder = llvm::sys::fs::is_directory(arguments.output);
  if (!arguments.output.empty() && !is_folder) {
    if (extension_of(arguments.output) != ".json") {
      return bad_input("--output '{0}' is neither a .json file nor an existing folder: name one of these",
                       arguments.output);
    }
    if (networks.size() * dtypes.size() > 1) {
      return bad_input(
          "--output as a .json file takes only one result: name an existing folder, or choose one --network "
          "and one --dtype");
    }
  }
  std::vector<NamedFile> inputs;
  inputs.reserve(networks.size() + arguments.clouds.size());
  for (const std::string& network : networks) inputs.push_back({"--network", network});
  for (const std::string& cloud : arguments.clouds) inputs.push_back({"--cloud", cloud});
  std::vector<Measurement> all;
  std::set<std::string> paths;
  for (const std::string& network : networks) {
    for (const std::string& flag : dtypes) {
      MINUET_ASSIGN(const minuet_dtype dtype, dtype_for(flag, is_cpu));
      llvm::SmallString<128> path(arguments.output);
      if (is_folder) {
        llvm::sys::path::append(
            path, file_word(llvm::sys::path::stem(network)) + "_" + dtype_name(dtype) + ".json");
        if (!paths.insert(path.str().str()).second) {
          return bad_input(
              "two results would be written to '{0}': name each dtype and network once, and give networks "
              "different file names",
              path);
        }
      }
      all.push_back({network, dtype, path.str().str(), std::nullopt});
      if (path.empty()) continue;
      MINUET_TRY(check_distinct({{"--output", all.back().path}}, inputs));
      MINUET_ASSIGN(OutputFile file, OutputFile::open(path));
      all.back().file.emplace(std::move(file));
    }
  }
  return all;
}

llvm::Error bench_network(const Arguments& arguments, Measurement& measurement,
                          const std::vector<BenchCloud>& clouds, const Session& session) {
  minuet_device* const device = session.device.get();
  const DeviceFacts& facts = session.facts;
  NetworkChoice choice;
  choice.network = measurement.network;
  choice.dataflow = arguments.network.dataflow;
  choice.in_channels = arguments.network.in_channels;
  MINUET_ASSIGN(const std::optional<Grid> grid, use_grid(choice, arguments.range, arguments.file_voxel_size));
  minuet_plan_info info;
  MINUET_ASSIGN(const PlanHandle network,
                open_network(session.context.get(), choice, measurement.dtype, info));
  if (arguments.tuned) MINUET_TRY(check_tuned(network.get()));
  MINUET_ASSIGN(const std::optional<OwnVoxels> own, find_own_voxels(measurement.network));
  const bool takes_time = grid && info.in_channels == 5;  // The fifth channel is the time since the scan.
  const bool takes_positions = own && info.in_channels == 3;
  if (info.ndim != 3 || (info.in_channels != 4 && !takes_time && !takes_positions)) {
    return bad_input(
        "the network '{0}' takes {1} channels in {2} dimensions, but clouds have 4 channels in 3 dimensions: "
        "give --in-channels 4, or name another network",
        measurement.network, info.in_channels, info.ndim);
  }
  if (arguments.training && own) {
    return bad_input(
        "the network '{0}' makes its voxels itself, which --training cannot: name another network",
        measurement.network);
  }
  const int32_t point_inputs = own ? static_cast<int32_t>(kPointInputs) : 0;
  if (info.inputs > 1 + point_inputs) {
    return bad_input(
        "the network '{0}' has {1} inputs, but a cloud gives the features of one: name another network",
        measurement.network, info.inputs - point_inputs);
  }
  std::vector<KernelFacts> kernels;
  std::optional<Progress> progress(kFindingKernels);
  MINUET_TRY(compile_network(network.get(), facts.arch, kernels));
  MINUET_TRY(check(minuet_plan_load(network.get(), device)));
  progress.reset();
  const int timed = arguments.variants > 0 ? arguments.variants : facts.is_cpu() ? 2 : 16;
  // A GPU needs several inferences until its clock frequencies have risen.
  const int warm_up = arguments.warm_up > 0 ? arguments.warm_up : facts.is_cpu() ? 1 : 20;
  ExecutionChoice execution = arguments.execution;
  if (choice.needs_batch_size) execution.batch_size = 1;
  const Bench bench{session.context.get(),
                    device,
                    facts,
                    measurement.dtype,
                    network.get(),
                    execution,
                    info,
                    std::min(warm_up, 4),
                    warm_up,
                    timed,
                    voxelizer_of(session),
                    arguments.training,
                    arguments.branches};
  llvm::outs() << info.name << " " << dtype_name(bench.dtype) << " on " << facts.description << "\n";
  if (info.int8_convolutions > 0)
    llvm::outs() << int8_text(info.int8_convolutions, info.convolutions) << "\n";
  if (info.missing_head != 0) llvm::outs() << missing_head_text(info) << "\n";
  MINUET_ASSIGN(llvm::json::Object result,
                measure_all(arguments, bench, clouds_in(clouds, grid, info.in_channels, own)));
  if (!measurement.file) return llvm::Error::success();
  MINUET_TRY(measurement.file->write(json_text(std::move(result))));
  llvm::outs() << "written: " << measurement.path << "\n";
  return llvm::Error::success();
}

}  // namespace

llvm::Error bench_command(const Arguments& arguments) {
  for (const std::string& dtype : arguments.dtypes) MINUET_TRY(dtype_for(dtype, true).takeError());
  const BenchFiles files{bench_data_folder(arguments.data), arguments.file_voxel_size, arguments.file_columns,
                         !arguments.range.empty()};
  std::optional<Progress> progress("reading the clouds");
  MINUET_ASSIGN(const std::vector<BenchCloud> clouds, open_bench_clouds(arguments.clouds, files));
  progress.reset();
  MINUET_ASSIGN(const Session session, open_session({arguments.cache}, arguments.device));
  if (arguments.tuned) MINUET_TRY(load_tuning(session));
  MINUET_ASSIGN(std::vector<Measurement> measurements, plan_measurements(arguments, session.facts.is_cpu()));
  for (const BenchCloud& cloud : clouds) {
    for (const std::string& note : cloud.notes) std::fprintf(stderr, "minuet: %s\n", note.c_str());
  }
  for (Measurement& measurement : measurements) {
    MINUET_TRY(bench_network(arguments, measurement, clouds, session));
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
