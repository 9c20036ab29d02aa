// `minuet tune run` measures which kernels are fastest for a network. `minuet tune show` prints what was
// chosen.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "codegen/base/number_text.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/interrupt.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/cloud/bench_clouds.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/commands/tune_run.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"
#include "tools/minuet/library/networks.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::tool {
namespace {

constexpr const char* kTuneRunFooter = R"(
CLOUD is a cloud of `minuet bench`, such as lidar_0.1 or os1_0.1, or a .bin, .ply, .pcd or .npy file of points.
The default is lidar_0.1, room_0.02 and object_0.01, which are generated. Choose clouds that have the extent and the
number of voxels of those that you will run. A result holds for layers with the same channels and kernel size whose
number of rows is between the same powers of two, and for the next smaller and larger range if nothing was measured
there. A result for a whole layer holds either for scattered points (less than 4 pairs per row), for surfaces (less
than 16) or for filled volumes. Clouds are turned about the z axis, so that `minuet bench` times other clouds.

Each candidate is measured inside runs of the whole network, alternately with the default. On a GPU the candidates are
configurations of the fused kernel and orders of its rows, tiles of gather and scatter, cuBLASLt's algorithms, the
padding, heights and streams of grouped GEMMs, and block sizes and threads of the search that makes sorted maps. On
every device the fused dataflow is compared with gather-GEMM-scatter. A candidate that beats the default in two
measurements, by more than the spread of their difference, is stored in the cache folder once all of its kind are
measured. Ctrl-C keeps the results so far. Results are used only by `minuet run`, `minuet bench` and `minuet
precompile` with `--tuned`, and by programs that call minuet_context_load_tuning.

Examples:
  minuet tune run sweep.bin --budget 120
  minuet tune run os1_0.1 os1_0.05 office_0.01 lidar_0.1 random_1e5 --network minkunet42 --dtype fp16
  minuet tune show --network minkunet42 --dtype fp16
  minuet bench --tuned --cloud os1_0.1)";

constexpr const char* kGenerated[] = {"lidar_0.1", "room_0.02", "object_0.01"};
/// Tuning measures this variant of each cloud (make_variant()), which `minuet bench` never times.
constexpr int kVariant = 7919;

struct TuneSession : Session {
  minuet_dtype dtype = MINUET_F16;
};

llvm::Expected<TuneSession> open_tune_session(const Arguments& arguments, bool read_only) {
  TuneSession session;
  MINUET_ASSIGN(
      static_cast<Session&>(session),
      open_session({arguments.cache, /*trace=*/false, /*must_jit=*/true, read_only}, arguments.device));
  MINUET_ASSIGN(session.dtype, dtype_for(arguments.dtype, session.facts.is_cpu()));
  return session;
}

double budget_of(const Arguments& arguments) { return arguments.budget > 0 ? arguments.budget : 120; }

llvm::Expected<TuneClouds> upload_clouds(const std::vector<BenchCloud>& clouds, const Session& session) {
  const Voxelizer voxelizer = voxelizer_of(session);
  TuneClouds uploaded;
  for (const BenchCloud& cloud : clouds) {
    for (const std::string& note : cloud.notes) llvm::errs() << "minuet: " << note << "\n";
    MINUET_ASSIGN(const VoxelCloud voxels,
                  in_file(cloud.name, make_variant(cloud, kVariant, /*thin=*/false, voxelizer)));
    MINUET_TRY(uploaded.add(voxels, session.device.get()));
  }
  return uploaded;
}

struct TuneOutput {
  std::optional<Progress> progress;
  std::string step;
  std::map<std::string, int> skipped;  // Counts the configurations that were not measured, by reason.
};

void on_progress(const minuet_tuning_progress* progress, void* user) {
  TuneOutput& output = *static_cast<TuneOutput*>(user);
  if (output.step != progress->step) {
    output.step = progress->step;
    output.progress->say("measuring " + output.step);
  }
  // The bar starts after the first round of measurements, because the time of a round is unknown before, and
  // the default configuration may have to be compiled first.
  if (progress->rounds > 0) output.progress->step(progress->rounds, progress->most_rounds);
}

void on_skip(const minuet_tuning_skip* skip, void* user) {
  TuneOutput& output = *static_cast<TuneOutput*>(user);
  ++output.skipped[std::string(skip->operation) + " " + skip->config + ": " + skip->reason];
}

struct Choices {
  bool all = false;  // False means that only choices that beat the default are printed.
  int64_t known = 0, printed = 0;
};

void print_choice(const minuet_tuned_choice* choice, void* user) {
  Choices& choices = *static_cast<Choices*>(user);
  ++choices.known;
  const bool is_default = llvm::StringRef(choice->chosen) == choice->otherwise;
  const char* const layer = *choice->layer ? choice->layer : "(all layers)";
  if (is_default && !choices.all) return;
  if (choices.printed++ == 0) {
    llvm::outs() << llvm::formatv("{0,-32} {1,19} {2,13}  {3,-8} {4,10} {5,10} {6,6}\n", "layer", "rows",
                                  "pairs per row", "what", "chosen, ms", "default", "less");
  }
  const double chosen = static_cast<double>(choice->chosen_ns) * 1e-6,
               otherwise = static_cast<double>(choice->default_ns) * 1e-6;
  const std::string rows = llvm::formatv("{0} - {1}", choice->least_rows, choice->most_rows).str(),
                    less = fixed_text(100 - 100 * chosen / otherwise, 1) + " %",
                    what = is_default ? "default: " + std::string(choice->chosen)
                                      : differences(choice->chosen, choice->otherwise) +
                                            ", default: " + differences(choice->otherwise, choice->chosen);
  llvm::outs() << llvm::formatv("{0,-32} {1,19} {2,13}  {3,-8} {4,10:f4} {5,10:f4} {6,6}  {7}\n", layer, rows,
                                density_text(*choice), choice->operation, real(chosen), real(otherwise),
                                is_default ? "" : less, what);
}

/// Loads the stored tuning results and prints what they choose for the network's layers.
llvm::Error print_choices(const TuneSession& session, const NetworkChoice& choice, bool all) {
  MINUET_TRY(load_tuning(session));
  minuet_plan_info info;
  MINUET_ASSIGN(const PlanHandle plan, open_network(session.context.get(), choice, session.dtype, info));
  Choices choices{all};
  MINUET_TRY(check(minuet_plan_visit_tuning(plan.get(), print_choice, &choices)));
  if (choices.known == 0) {
    llvm::outs()
        << "there are no results for this network, dtype and device: measure with `minuet tune run`\n";
  }
  return llvm::Error::success();
}

void print_summary(const minuet_tuning_result& result, const TuneOutput& output) {
  for (const auto& [reason, count] : output.skipped) llvm::outs() << "skipped: " << reason << "\n";
  llvm::outs() << llvm::formatv(
      "{0} candidates measured in {1:f1} s, {2} more cannot run; the default lost {3} of {4} comparisons\n",
      result.tried, real(result.seconds), result.skipped, result.won, result.decided);
  if (result.tuned_ms <= 0) {
    if (result.won > 0 && !is_interrupted()) {
      llvm::outs() << "no time was left to compare the whole network untuned and tuned\n\n";
    }
    return;
  }
  llvm::outs() << llvm::formatv(
      "whole network on all clouds: {0:f3} ms untuned, {1:f3} ms tuned ({2:f1} % of the untuned time)\n\n",
      real(result.untuned_ms), real(result.tuned_ms), real(100 * result.tuned_ms / result.untuned_ms));
}

}  // namespace

llvm::Error TuneClouds::add(const VoxelCloud& cloud, minuet_device* device) {
  MINUET_ASSIGN(DeviceBuffer coordinates, upload_coordinates(device, cloud));
  clouds.push_back({static_cast<const int32_t*>(coordinates.get()), cloud.count()});
  memory.push_back(std::move(coordinates));
  return llvm::Error::success();
}

std::string differences(llvm::StringRef config, llvm::StringRef other) {
  llvm::SmallVector<llvm::StringRef, 16> fields, others;
  config.split(fields, ' ');
  other.split(others, ' ');
  std::string different;
  for (const llvm::StringRef field : fields) {
    if (std::find(others.begin(), others.end(), field) != others.end()) continue;
    different += (different.empty() ? "" : " ") + field.str();
  }
  return different;
}

std::string density_text(const minuet_tuned_choice& choice) {
  if (std::isinf(choice.most_density)) return "any";
  return fixed_text(choice.least_density, 0) + " - " + fixed_text(choice.most_density, 0);
}

void add_tune_network(CLI::App& app, Arguments& arguments) {
  add_network_name(app, arguments.network)
      ->description("name of a shipped network (minuet run --list-networks), or a JSON file");
  add_channels(app, arguments.network);
  add_dtype(app, arguments.dtype);
  add_dataflow(app, arguments.network)
      ->description(
          "dataflow whose kernels are considered: gather-gemm-scatter or fused; default: auto, which "
          "compares both");
  add_device(app, arguments.device);
  add_cache(app, arguments)->description("kernel cache folder, which stores the results too");
}

void add_tune_run(CLI::App& run, Arguments& arguments) {
  run.footer(kTuneRunFooter);
  run.add_option("CLOUD", arguments.clouds, "clouds by name, or files of points; default: generated ones");
  add_bench_files(run, arguments);
  add_range(run, arguments.range);
  add_value(run, "--budget", arguments.budget, "SECONDS",
            "seconds that the whole command may take; default: 120")
      ->transform(kNumber)
      ->check(CLI::Range(0.001, 1e6));
  run.add_flag("--exhaustive", arguments.exhaustive, "measure every candidate, without a time limit");
  run.add_flag("--training", arguments.training,
               "also measure the kernels for the gradients of weights and inputs in a training step");
  run.add_flag("--only-training", arguments.only_training,
               "measure nothing but what --training adds, and keep the other results");
  add_count(run, "--repeat", arguments.repeat, 3, 10000,
            "timed runs of each cloud in each round of measurements; default: 16 on a GPU, 5 on the CPU");
  add_tune_network(run, arguments);
}

llvm::Error tune_run(const Arguments& arguments) {
  const BenchFiles files{bench_data_folder(arguments.data), arguments.file_voxel_size, arguments.file_columns,
                         !arguments.range.empty()};
  std::vector<std::string> names = arguments.clouds;
  if (names.empty()) names.assign(std::begin(kGenerated), std::end(kGenerated));
  MINUET_ASSIGN(const std::vector<BenchCloud> clouds, open_bench_clouds(names, files));
  MINUET_ASSIGN(const TuneSession session, open_tune_session(arguments, /*read_only=*/false));
  if (arguments.only_training && session.facts.is_cpu()) {
    return bad_input(
        "the CPU has one kernel for each gradient, so that there is nothing to choose: leave --only-training "
        "out, or name a GPU with --device");
  }
  NetworkChoice network = arguments.network;
  MINUET_ASSIGN(const std::optional<OwnVoxels> own, find_own_voxels(network.network));
  if (own) {
    return bad_input(
        "the network '{0}' makes voxels of points in each run, and only networks that take voxels are "
        "measured: tune one with the same layers without voxelize and devoxelize, whose results --tuned "
        "uses for '{0}' too",
        network.network);
  }
  MINUET_ASSIGN(const std::optional<Grid> grid,
                use_grid(network, arguments.range, arguments.file_voxel_size));
  minuet_plan_info info;
  MINUET_ASSIGN(const PlanHandle plan, open_network(session.context.get(), network, session.dtype, info));
  if (info.ndim != 3) {
    return bad_input("the network '{0}' has {1} dimensions, but clouds have 3: name another network",
                     arguments.network.network, info.ndim);
  }
  MINUET_ASSIGN(const TuneClouds uploaded, upload_clouds(clouds_in(clouds, grid, info.in_channels), session));
  TuneOutput output;
  minuet_tuning_options tuning = MINUET_TUNING_OPTIONS_INIT;
  tuning.clouds = uploaded.clouds.data();
  tuning.cloud_count = static_cast<int32_t>(uploaded.clouds.size());
  tuning.repeats = arguments.repeat;
  tuning.budget_seconds = arguments.budget;
  tuning.exhaustive = arguments.exhaustive ? 1 : 0;
  tuning.training = arguments.only_training ? 2 : arguments.training ? 1 : 0;
  tuning.progress = on_progress;
  tuning.skipped = on_skip;
  tuning.cancelled = [](void*) { return static_cast<int32_t>(is_interrupted()); };
  tuning.user = &output;
  minuet_tuning_result result = {};
  result.struct_size = sizeof(result);
  watch_interrupts();
  output.progress.emplace("compiling the default kernels");
  if (!arguments.exhaustive) output.progress->ends_within(budget_of(arguments));
  const minuet_status status =
      minuet_tune(session.context.get(), plan.get(), session.device.get(), &tuning, &result);
  output.progress.reset();
  if (status != MINUET_OK && status != MINUET_CANCELLED) return check(status);
  llvm::outs() << llvm::formatv("{0} in {1} on {2}\n", info.name, dtype_name(session.dtype),
                                session.facts.description);
  print_summary(result, output);
  if (status == MINUET_OK && result.tried == 0) {
    llvm::outs() << "nothing was measured: after the default kernels were compiled and run, no time was left "
                    "to measure a candidate twice. The compiled kernels are kept: run the command again, or "
                    "use a larger --budget, a smaller --repeat or fewer clouds\n";
  }
  if (result.decided > 0) MINUET_TRY(print_choices(session, network, /*all=*/false));
  if (status == MINUET_OK) return llvm::Error::success();
  return interrupted(result.decided > 0 ? "interrupted; what was measured is kept"
                                        : "interrupted before anything was measured");
}

llvm::Error tune_show(const Arguments& arguments) {
  MINUET_ASSIGN(const TuneSession session, open_tune_session(arguments, /*read_only=*/true));
  return print_choices(session, arguments.network, /*all=*/true);
}

}  // namespace minuet::tool
