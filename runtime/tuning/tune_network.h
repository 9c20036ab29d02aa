// Tuning a network: what is measured in which order, and what of it is kept.
//
// First the kernels of the dataflow that most layers run by, then those of the other one, each by itself;
// then what serves all layers: groups of GEMMs, the search of sorted maps, the order of rows; then dataflow
// against dataflow, each with its best kernels; last the whole network. What was decided is in the store as
// soon as a step is over. Each step has a part of the time that is left to it and to those after it.
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
  const char* step = "";  // "fused kernels"
  TuningProgress search;
};

struct TuneOptions {
  MeterOptions meter;
  double budget_seconds = 120;  // of all of it, from the first kernel that is compiled on
  bool exhaustive = false;      // every candidate, whatever the time
  std::function<void(const TuneProgress&)> progress;
  std::function<void(const TuningBucket&, const TuningConfig&, const std::string& reason)> skipped;
};

struct TuneSummary {
  i64 tried = 0, skipped = 0;  // candidates
  i64 decided = 0, won = 0;    // buckets; those of them where something beats the default
  i64 untuned_ns = 0,
      tuned_ns = 0;  // of all clouds' inferences, medians; 0 where nothing won, or nobody had time to compare
  bool stopped = false;
};

/// Of layers' buckets and the maps that they read: those that stand or fall together. Where layers of one map
/// run by different dataflows, it has the views of both made.
std::vector<std::set<TuningBucket>> group_by_map(const std::vector<std::pair<i64, TuningBucket>>& read);

/// Tunes the plan of a network on `device`, whose measurements hold for `environment`. The heuristic is what
/// is compared with, whatever the plan was tuned by.
llvm::Expected<TuneSummary> tune_network(const std::shared_ptr<const Plan>& plan,
                                         const std::shared_ptr<KernelCache>& cache,
                                         TuningEnvironment environment, const std::shared_ptr<Device>& device,
                                         TuningStore& store, const TuneOptions& options);

}  // namespace minuet
