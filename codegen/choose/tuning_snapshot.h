// Holds the tuning results that are known at one moment, in the form in which choices look them up.
//
// Results come from several sources (TuningLayer): first the user's store of results, then kernel bundles.
// For each bucket of problems (TuningBucket), the first source with a valid result decides. If no source has
// one, the heuristics of codegen/choose decide. A snapshot never changes; load another one to see results
// that were stored later.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/choose/tuning_entry.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// Holds the entries of one source, for example a bundle. They may be of any TuningEnvironment.
struct TuningLayer {
  std::string name;  // Examples are "user" and "bundle".
  std::vector<TuningEntry> entries;
};

using TuningConfigs = std::map<TuningBucket, TuningConfig>;

/// Holds the best valid measurement for a bucket of problems (TuningBucket), and the default configuration
/// with its time.
struct TunedResult {
  TuningMeasurement best;
  i64 default_ns = 0;
  TuningConfig default_config;
  std::string layer;
  std::string kernels;  // Holds the digest of the result's entry (TuningEntry).

  /// Returns text to append to the reason of a choice, such as ": tuned, 0.012 ms against 0.014 ms of the
  /// default (user)".
  std::string reason() const;
};

/// Looks up tuning results. A snapshot is immutable, so threads may share it.
class TuningSnapshot {
 public:
  /// Leaves out entries of other environments, entries whose default configuration is not the one that this
  /// version of the library chooses, and configurations that it cannot run. The toolkit of an entry may
  /// differ, because a bundle's kernels come from the toolkit with which they were measured, and run on hosts
  /// with another one.
  TuningSnapshot(const TuningEnvironment& environment, const std::vector<TuningLayer>& layers);

  /// Makes a snapshot of only these configurations, so that their effect on a plan can be measured. They are
  /// not validated.
  TuningSnapshot(const TuningEnvironment& environment, const TuningConfigs& configs);

  /// Returns true if the results were measured on a GPU with the compute capability of `arch`, or on a CPU if
  /// `arch` is empty.
  bool serves(llvm::StringRef arch) const;
  /// Returns the number of buckets of problems (TuningBucket) that have a result.
  std::size_t size() const;
  /// Returns the sources with their results in the order in which they decide. Each entry has the best
  /// measurement and the default. A snapshot that is made of them with environment() finds the same results.
  std::vector<TuningLayer> layers() const;
  const TuningEnvironment& environment() const { return environment_; }

  /// Returns the result for the bucket, or null. If the number of rows is unknown or was not measured,
  /// returns the result with the most rows, for which the choice matters most. For a whole layer
  /// (is_of_layer()), returns the result for this number of rows, for twice as many or for half as many, in
  /// this order. At each number of rows, a result of the same density is preferred to one without a density.
  const TunedResult* find(const TuningBucket& bucket) const;
  /// Does the same for a whole layer of which only the greatest density is known, that of the bucket. At each
  /// number of rows, returns the result with the greatest density that is not above it.
  const TunedResult* find_densest(const TuningBucket& bucket) const;
  /// Returns the result measured for exactly this bucket, or null.
  const TunedResult* find_exactly(const TuningBucket& bucket) const;

 private:
  const TunedResult* find_near(const TuningBucket& bucket, llvm::ArrayRef<i64> densities) const;

  std::vector<std::map<TuningBucket, TunedResult>> layers_;
  const TuningEnvironment environment_;
};

}  // namespace minuet
