// What is known of tuning at one moment, as choices ask for it (R34, R35).
//
// Layers in order: the user's store, then bundles; the first that has a valid result for a bucket
// decides, and where none has, the heuristic does. To see what was stored since, load another snapshot:
// one that is in use never changes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/choose/tuning_entry.h"

namespace minuet {

/// One layer: where it comes from, and its entries of any environment.
struct TuningLayer {
  std::string name;  // "user", "bundle"
  std::vector<TuningEntry> entries;
};

/// Configurations by bucket.
using TuningConfigs = std::map<TuningBucket, TuningConfig>;

/// The best valid measurement of a bucket, and the default's.
struct TunedResult {
  TuningMeasurement best;
  i64 default_ns = 0;
  TuningConfig default_config;
  std::string layer;

  /// ": tuned, 0.012 ms against 0.014 ms of the default (user)", to follow what was chosen.
  std::string reason() const;
};

/// Immutable; shared by threads.
class TuningSnapshot {
 public:
  /// Entries of other environments are left out, and what today's code cannot run is passed over. Whatever
  /// the toolkit: a bundle's kernels are of the one that it was measured with, and serve hosts with another.
  TuningSnapshot(const TuningEnvironment& environment, const std::vector<TuningLayer>& layers);

  /// These configurations and nothing else, to measure what they make of a plan.
  TuningSnapshot(const TuningEnvironment& environment, const TuningConfigs& configs);

  /// Whether it was measured on what code for `arch` ("": the CPU) is for: another GPU's results say nothing.
  bool serves(llvm::StringRef arch) const;
  /// Buckets of which something is known.
  std::size_t size() const;

  /// Where the bucket's rows are not known, or nobody measured them, the result with the most rows: most time
  /// is at stake there. Of a layer as a whole (is_of_layer) the result of twice the rows, else of half as
  /// many, else none; each of the density, else what was measured without one.
  /// Null where nothing is known of any.
  const TunedResult* find(const TuningBucket& bucket) const;
  /// What was measured for these rows themselves, or null.
  const TunedResult* find_exactly(const TuningBucket& bucket) const;

 private:
  const TunedResult* find_near(const TuningBucket& bucket) const;

  std::vector<std::map<TuningBucket, TunedResult>> layers_;
  const std::string compute_capability_;  // "9.0"; empty: the CPU
};

}  // namespace minuet
