// The measurements of one bucket in one environment, as a ranked list and as JSON text. All functions are
// pure.
//
// Times are whole nanoseconds and configurations hold whole numbers, so that equal entries have equal bytes
// in every process and locale.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/choose/tuning_key.h"

namespace minuet {

/// A configuration by the names of its fields, for example {"tile": 16}. tuned_config.h defines the names.
using TuningConfig = std::map<std::string, i64>;

struct TuningMeasurement {
  TuningConfig config;
  i64 median_ns = 0;
  i64 least_ns = 0;
  i64 spread_ns = 0;        // difference between the upper and the lower quartile
  bool is_default = false;  // true for the choice that is made without tuning
  std::string driver;       // driver version of the measurement
  bool operator==(const TuningMeasurement&) const = default;
};

struct TuningEntry {
  TuningEnvironment environment;
  TuningBucket bucket;
  /// Best first; the default is always included. Measurements that rank behind the default are kept for
  /// merges and are never chosen, because a tuned configuration must beat the default.
  std::vector<TuningMeasurement> measurements;
  /// Digest of the kernels among which the operation chose (codegen/tuning/tuned_kernels.h). An entry with
  /// another digest is another result.
  std::string kernels;
  bool operator==(const TuningEntry&) const = default;
};

/// Returns the ranked results of a tuning run, without the digest of the kernels. The default wins if no
/// other configuration is faster.
TuningEntry make_entry(const TuningEnvironment& environment, const TuningBucket& bucket,
                       TuningMeasurement default_measurement, std::vector<TuningMeasurement> others);

/// Returns the union of both by configuration, and keeps the lower median. Commutative and associative. Both
/// entries must have the same environment, bucket and kernels.
TuningEntry merge_entries(const TuningEntry& a, const TuningEntry& b);

/// Merges two runs that measured different point clouds. The times of `other` are scaled so that the default
/// has the time that it has in `mine`. Returns `mine` alone if the runs have different defaults.
TuningEntry merge_runs(const TuningEntry& mine, const TuningEntry& other);

/// Returns a JSON array as in files of the store and in bundles. Equal sets of entries give equal bytes in
/// any order.
std::string write_tuning(const std::vector<TuningEntry>& entries);
/// Reads the elements of a JSON array. Elements with another schema and those that lack or misspell a field
/// are left out, and the reason is added to `skipped`, which may be null. Fields that this schema does not
/// have are ignored. Returns an error if the text is no array.
llvm::Expected<std::vector<TuningEntry>> read_tuning(llvm::StringRef text,
                                                     std::vector<std::string>* skipped = nullptr);
/// Returns true if an element has a later schema than this library.
bool has_newer_schema(llvm::StringRef text);

/// Returns each distinct environment once, as pointers into `entries`.
std::vector<const TuningEnvironment*> environments_of(const std::vector<TuningEntry>& entries);

}  // namespace minuet
