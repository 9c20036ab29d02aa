#include "tools/minuet/commands/bench_training.h"

#include <algorithm>
#include <cstdio>

#include "codegen/base/number_text.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/progress.h"
#include "tools/minuet/commands/bench_times.h"
#include "tools/minuet/library/replay.h"
#include "tools/minuet/library/report.h"

namespace minuet::tool {
namespace {

/// Holds the times of steps in milliseconds. `step` is a whole step; `enqueue` is the part of it in which the
/// host makes calls. The others are those of steps in which the host waits between the calls.
struct StepTimes {
  std::vector<double> step, enqueue, maps, forward, backward;
};

/// Finds the capacities by inferences of the unthinned variants in exact mode.
llvm::Expected<std::vector<int64_t>> find_capacities(const TrainingBench& bench,
                                                     const std::vector<VoxelCloud>& clouds) {
  Replay inferences(bench.network, bench.info, bench.device, bench.facts, bench.dtype, bench.execution);
  for (const VoxelCloud& cloud : clouds) MINUET_TRY(inferences.learn(cloud));
  return inferences.capacities();
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

std::string middle(const std::vector<double>& times) { return milliseconds(median(times)); }

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
                                     std::move(capacities), bench.execution.batch_size, bench.branches));
  for (int i = 0; i < bench.warm_up; ++i) {
    MINUET_TRY(step->put(clouds[static_cast<size_t>(i % bench.unthinned)]));
    MINUET_TRY(run_step(bench, *step).takeError());
  }
  StepTimes times;
  VoxelRange range{clouds.front().count()};
  uint32_t status = 0;
  for (int i = bench.unthinned; i < bench.unthinned + bench.timed; ++i) {
    MINUET_ASSIGN(const VoxelCloud voxels, make_variant(cloud, i, /*thin=*/true, bench.voxelizer));
    MINUET_TRY(step->put(voxels));
    MINUET_ASSIGN(const auto whole, run_step(bench, *step));
    times.step.push_back(whole.first), times.enqueue.push_back(whole.second);
    MINUET_TRY(time_parts(bench, *step, times));
    MINUET_ASSIGN(const uint32_t of_cloud, step->status());
    status |= of_cloud;
    range.least = i == bench.unthinned ? voxels.count() : std::min(range.least, voxels.count());
    range.greatest = std::max(range.greatest, voxels.count());
  }
  progress.reset();
  if (status != 0) {
    return bad_input(
        "a variant of the cloud did not fit the fixed buffer sizes, which are {0} times the "
        "voxels of the unthinned variants: name another cloud",
        fixed_text(kCapacityFactor, 2));
  }
  const minuet_training_sizes& sizes = step->sizes();
  print_row(cloud.name, std::to_string(range.greatest),
            {middle(times.step), middle(times.maps), middle(times.forward), middle(times.backward),
             middle(times.enqueue)},
            fixed_text(static_cast<double>(sizes.kept) / 1e6, 1));
  llvm::json::Object entry = times_json(cloud, range, times.step);
  entry["maps_ms"] = spread_json(times.maps);
  entry["forward_ms"] = spread_json(times.forward);
  entry["backward_ms"] = spread_json(times.backward);
  entry["enqueue_ms"] = spread_json(times.enqueue);
  entry["capacities"] = llvm::json::Array(step->capacities());
  entry["pyramid_bytes"] = step->buffer_bytes();
  entry["kept_bytes"] = sizes.kept;
  entry["forward_workspace_bytes"] = sizes.forward_workspace;
  entry["backward_workspace_bytes"] = sizes.backward_workspace;
  return entry;
}

}  // namespace minuet::tool
