#include "tools/minuet/commands/bench_training.h"

#include <algorithm>
#include <cstdio>

#include "codegen/base/number_text.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/library/report.h"

namespace minuet::tool {
namespace {

/// The capacity of a level is this multiple of the largest number of voxels that it has in the unthinned
/// variants.
constexpr double kFactor = 1.25;

/// Holds the times of steps in milliseconds. `step` is a whole step; `enqueue` is the part of it in which the
/// host makes calls. The others are those of steps in which the host waits between the calls.
struct StepTimes {
  std::vector<double> step, enqueue, maps, forward, backward;
};

/// Finds the capacities by inferences of the unthinned variants in exact mode.
llvm::Expected<std::vector<int64_t>> find_capacities(const TrainingBench& bench,
                                                     const std::vector<VoxelCloud>& clouds) {
  std::vector<int64_t> capacities(static_cast<size_t>(bench.info.levels)), wanted(capacities);
  MINUET_ASSIGN(const ExecutionHandle execution,
                open_execution(bench.network, bench.device, clouds.front().count(), bench.execution));
  MINUET_ASSIGN(Outputs outputs, Outputs::create(bench.network, bench.device, bench.execution.batch_size));
  for (const VoxelCloud& cloud : clouds) {
    MINUET_ASSIGN(const DeviceCloud uploaded, upload_cloud(bench.device, cloud, bench.dtype));
    MINUET_TRY(infer(execution.get(), bench.device, uploaded, outputs));
    MINUET_TRY(check(
        minuet_execution_suggest_capacities(execution.get(), kFactor, wanted.data(), bench.info.levels)));
    for (size_t i = 0; i < wanted.size(); ++i) capacities[i] = std::max(capacities[i], wanted[i]);
  }
  return capacities;
}

/// Runs a whole step, and returns its time and that of the calls.
llvm::Expected<std::pair<double, double>> run_step(const TrainingBench& bench, TrainingStep& step) {
  const Clock::time_point start = Clock::now();
  if (bench.execution.replay && !bench.facts.is_cpu()) {
    MINUET_TRY(step.replay());
    return std::pair(milliseconds_since(start), 0.0);
  }
  MINUET_TRY(step.build(nullptr));
  MINUET_TRY(step.forward(nullptr));
  MINUET_TRY(step.backward(nullptr));
  const double enqueued = milliseconds_since(start);
  MINUET_TRY(check(minuet_device_synchronize(bench.device, nullptr)));
  return std::pair(milliseconds_since(start), enqueued);
}

llvm::Error time_parts(const TrainingBench& bench, TrainingStep& step, StepTimes& times) {
  const auto time = [&](llvm::Error (TrainingStep::*part)(void*), std::vector<double>& list) -> llvm::Error {
    const Clock::time_point start = Clock::now();
    MINUET_TRY((step.*part)(nullptr));
    MINUET_TRY(check(minuet_device_synchronize(bench.device, nullptr)));
    list.push_back(milliseconds_since(start));
    return llvm::Error::success();
  };
  MINUET_TRY(time(&TrainingStep::build, times.maps));
  MINUET_TRY(time(&TrainingStep::forward, times.forward));
  return time(&TrainingStep::backward, times.backward);
}

void print_row(llvm::StringRef cloud, llvm::StringRef voxels, llvm::ArrayRef<std::string> times,
               llvm::StringRef kept) {
  llvm::outs() << llvm::formatv("{0,-16} {1,10}", cloud, voxels);
  for (const std::string& time : times) llvm::outs() << llvm::formatv(" {0,10}", time);
  llvm::outs() << llvm::formatv(" {0,9}\n", kept);
  llvm::outs().flush();
}

std::string milliseconds(const std::vector<double>& times) { return fixed_text(median(times), 3); }

}  // namespace

void print_training_head() {
  print_row("cloud", "voxels", {"step, ms", "maps", "forward", "backward", "enqueue"}, "kept, MB");
}

llvm::Expected<llvm::json::Object> bench_training(const TrainingBench& bench, const BenchCloud& cloud) {
  std::optional<Progress> progress("measuring " + cloud.name);
  std::vector<VoxelCloud> clouds;
  for (int i = 0; i < bench.unthinned; ++i) {
    MINUET_ASSIGN(VoxelCloud voxels, make_variant(cloud, i, /*thin=*/false, bench.voxelizer));
    clouds.push_back(std::move(voxels));
  }
  MINUET_ASSIGN(std::vector<int64_t> capacities, find_capacities(bench, clouds));
  MINUET_ASSIGN(const std::unique_ptr<TrainingStep> step,
                TrainingStep::create(bench.context, bench.network, bench.device, bench.facts, bench.dtype,
                                     std::move(capacities), bench.execution.batch_size));
  for (int i = 0; i < bench.warm_up; ++i) {
    MINUET_TRY(step->put(clouds[static_cast<size_t>(i % bench.unthinned)]));
    MINUET_TRY(run_step(bench, *step).takeError());
  }
  StepTimes times;
  int64_t least = 0, greatest = 0;
  uint32_t status = 0;
  for (int i = bench.unthinned; i < bench.unthinned + bench.timed; ++i) {
    MINUET_ASSIGN(const VoxelCloud voxels, make_variant(cloud, i, /*thin=*/true, bench.voxelizer));
    MINUET_TRY(step->put(voxels));
    MINUET_ASSIGN(const auto whole, run_step(bench, *step));
    times.step.push_back(whole.first), times.enqueue.push_back(whole.second);
    MINUET_TRY(time_parts(bench, *step, times));
    MINUET_ASSIGN(const uint32_t of_cloud, step->status());
    status |= of_cloud;
    least = i == bench.unthinned ? voxels.count() : std::min(least, voxels.count());
    greatest = std::max(greatest, voxels.count());
  }
  progress.reset();
  if (status != 0) {
    return bad_input(
        "a variant of the cloud did not fit the fixed buffer sizes, which are {0} times the "
        "voxels of the unthinned variants: name another cloud",
        fixed_text(kFactor, 2));
  }
  const minuet_training_sizes& sizes = step->sizes();
  print_row(cloud.name, std::to_string(greatest),
            {milliseconds(times.step), milliseconds(times.maps), milliseconds(times.forward),
             milliseconds(times.backward), milliseconds(times.enqueue)},
            fixed_text(static_cast<double>(sizes.kept) / 1e6, 1));
  return llvm::json::Object{
      {"cloud", cloud.name},
      {"origin", cloud.origin},
      {"voxel_size", size_json(cloud.voxel_size)},
      {"voxels",
       llvm::json::Object{{"unthinned", clouds.front().count()}, {"min", least}, {"max", greatest}}},
      {"variants", static_cast<int64_t>(times.step.size())},
      {"wall_ms", spread_json(times.step)},
      {"maps_ms", spread_json(times.maps)},
      {"forward_ms", spread_json(times.forward)},
      {"backward_ms", spread_json(times.backward)},
      {"enqueue_ms", spread_json(times.enqueue)},
      {"capacities", llvm::json::Array(step->capacities())},
      {"pyramid_bytes", step->buffer_bytes()},
      {"kept_bytes", sizes.kept},
      {"forward_workspace_bytes", sizes.forward_workspace},
      {"backward_workspace_bytes", sizes.backward_workspace},
  };
}

}  // namespace minuet::tool
