// The tuning results that are known at one moment, in the form in which choices look them up.
//
// Results come in layers: the user's store first, then bundles. The first layer with a valid result for a
// bucket decides; if there is none, the heuristic decides. A snapshot never changes; load another one to see
// results that were stored later.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/choose/tuning_entry.h"

namespace minuet {

/// The entries of one source, of any environment.
struct TuningLayer {
  std::string name;  // for example "user" or "bundle"
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

  /// Returns text to append to a choice, such as ": tuned, 0.012 ms against 0.014 ms of the default (user)".
  std::string reason() const;
};

/// Immutable, so threads may share it.
class TuningSnapshot {
 public:
  /// Leaves out entries of other environments or with another default than this code's, and configurations
  /// that this code cannot run. The toolkit may
  /// differ, because a bundle's kernels come from the toolkit with which they were measured and run on hosts
  /// with another one.
  TuningSnapshot(const TuningEnvironment& environment, const std::vector<TuningLayer>& layers);

  /// Holds these configurations only, in order to measure their effect on a plan.
  TuningSnapshot(const TuningEnvironment& environment, const TuningConfigs& configs);

  /// Returns true if the results were measured on a device for which code for `arch` is made; an empty `arch`
  /// is the CPU. Results of another GPU do not apply.
  bool serves(llvm::StringRef arch) const;
  /// Returns the number of buckets that have a result.
  std::size_t size() const;

  /// Returns the result for the bucket, or null. If the rows are unknown or were not measured, returns the
  /// result with the most rows, which has the most time at stake. For a whole layer (is_of_layer) returns the
  /// result for these rows, else for twice or for half as many rows; for each, a result of the same density
  /// goes before one without a density.
  const TunedResult* find(const TuningBucket& bucket) const;
  /// Returns the result measured for exactly this bucket, or null.
  const TunedResult* find_exactly(const TuningBucket& bucket) const;

 private:
  const TunedResult* find_near(const TuningBucket& bucket) const;

  std::vector<std::map<TuningBucket, TunedResult>> layers_;
  const std::string compute_capability_;  // for example "9.0"; empty for the CPU
};

}  // namespace minuet
