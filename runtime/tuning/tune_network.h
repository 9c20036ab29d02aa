// Tunes a network. tune_network() decides what is measured, in which order, and which results are kept.
//
// Tuning has several steps. The first two steps measure the kernels of each dataflow in a network that runs
// only this dataflow, and begin with the dataflow that most layers run. If training is tuned, two steps
// measure the gradients of weights and of inputs inside backward passes. The next steps measure the settings
// that serve all layers, which are the grouping of GEMMs, the search of sorted maps and the order of rows.
// The last step compares the dataflows, each with its best kernels. In the end, the whole network is
// measured. The store has the decisions of a step as soon as the step is over. Each step gets a share of the
// time that is left for it and the steps after it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/cache/kernel_cache.h"
#include "codegen/tuning/tuning_store.h"
#include "runtime/tuning/network_meter.h"

namespace minuet {

struct TuneProgress {
  const char* step = "";  // Names the step, for example "fused kernels".
  TuningProgress search;
};

/// Says what is tuned: the kernels of the network, or those that compute gradients in a training step of it.
enum class TuneScope : i32 { Network, NetworkAndGradients, Gradients };

struct TuneOptions {
  MeterOptions meter;
  double budget_seconds = 120;  // Limits the time of the whole tuning, including compilation.
  bool exhaustive = false;      // Says whether to measure every candidate and to ignore the budget.
  TuneScope scope = TuneScope::Network;
  std::function<void(const TuneProgress&)> progress;
  std::function<void(const TuningBucket&, const TuningConfig&, const std::string& reason)> skipped;
};

struct TuneSummary {
  i64 tried = 0, skipped = 0;  // These count the tried configurations, and those that do not run.
  i64 decided = 0, won = 0;    // These count the decided TuningBuckets, and those whose default was beaten.
  /// These are the median times of one inference of all clouds, without and with the tuning results. Both are
  /// 0 if no candidate won or if there was no time to measure the whole network.
  i64 untuned_ns = 0, tuned_ns = 0;
  bool stopped = false;
};

/// Tunes the plan of a network on `device`. The measurements are valid for `environment`. They are compared
/// with the heuristic choice, even if the plan uses tuning results.
llvm::Expected<TuneSummary> tune_network(const std::shared_ptr<const Plan>& plan,
                                         const std::shared_ptr<KernelCache>& cache,
                                         TuningEnvironment environment, const std::shared_ptr<Device>& device,
                                         TuningStore& store, const TuneOptions& options);

}  // namespace minuet
