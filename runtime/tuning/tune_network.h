// Tunes a network: decides what is measured, in which order, and which results are kept.
//
// The kernels of the dataflow that most layers run come first, then those of the other dataflow, each
// dataflow on its own. Then follow the settings that serve all layers: grouping of GEMMs, search of sorted
// maps, order of rows. Then the dataflows are compared, each with its best kernels, and last the whole
// network is measured. The store has the decisions of a step as soon as the step is over. Each step gets a
// share of the time left for it and the steps after it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cache/kernel_cache.h"
#include "codegen/tuning/tuning_store.h"
#include "runtime/tuning/network_meter.h"

namespace minuet {

struct TuneProgress {
  const char* step = "";  // for example "fused kernels"
  TuningProgress search;
};

struct TuneOptions {
  MeterOptions meter;
  double budget_seconds = 120;  // for the whole tuning, including compilation
  bool exhaustive = false;      // measures every candidate and ignores the budget
  std::function<void(const TuneProgress&)> progress;
  std::function<void(const TuningBucket&, const TuningConfig&, const std::string& reason)> skipped;
};

struct TuneSummary {
  i64 tried = 0, skipped = 0;  // candidates
  i64 decided = 0, won = 0;    // buckets decided, and those where a candidate beats the default
  // Medians of one inference of all clouds; 0 if nothing won or there was no time to compare.
  i64 untuned_ns = 0, tuned_ns = 0;
  bool stopped = false;
};

/// Returns the groups of layers' buckets that must be decided together because they read the same map: if
/// layers of one map run different dataflows, views for both must be made. `read` has pairs of a map and a
/// bucket that reads it.
std::vector<std::set<TuningBucket>> group_by_map(const std::vector<std::pair<i64, TuningBucket>>& read);

/// Tunes the plan of a network on `device`; the measurements are valid for `environment`. The baseline is the
/// heuristic choice, whatever tuning results the plan uses.
llvm::Expected<TuneSummary> tune_network(const std::shared_ptr<const Plan>& plan,
                                         const std::shared_ptr<KernelCache>& cache,
                                         TuningEnvironment environment, const std::shared_ptr<Device>& device,
                                         TuningStore& store, const TuneOptions& options);

}  // namespace minuet
