// Represents the measurements for one bucket of problems (TuningBucket) in one environment as a ranked list,
// and converts them to and from JSON text. All functions are pure.
//
// Times are whole nanoseconds and configurations hold whole numbers, so that equal entries have equal bytes
// in every process and locale.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/choose/tuning_key.h"

namespace minuet {

/// Maps the names of a configuration's fields to their values, for example {"tile": 16}. tuned_config.h
/// defines the names.
using TuningConfig = std::map<std::string, i64>;

struct TuningMeasurement {
  TuningConfig config;
  i64 median_ns = 0;
  i64 least_ns = 0;
  i64 spread_ns = 0;        // This is the upper minus the lower quartile of the times.
  bool is_default = false;  // This is true for the configuration that is chosen without tuning.
  std::string driver;       // This is the version of the CUDA driver during the measurement.
  bool operator==(const TuningMeasurement&) const = default;
};

struct TuningEntry {
  TuningEnvironment environment;
  TuningBucket bucket;
  /// Holds the measurements, the best one first. The default configuration is always included. Measurements
  /// that rank behind the default are kept for merge_entries() and are never chosen, because a tuned
  /// configuration must beat the default.
  std::vector<TuningMeasurement> measurements;
  /// Holds a digest of the kernels among which tuning chose (codegen/tuning/tuned_kernels.h). Entries with
  /// different digests are different results.
  std::string kernels;
  bool operator==(const TuningEntry&) const = default;
};

/// Returns the ranked results of a tuning run, without the digest of the kernels. The default ranks first if
/// no other configuration is faster.
TuningEntry make_entry(const TuningEnvironment& environment, const TuningBucket& bucket,
                       TuningMeasurement default_measurement, std::vector<TuningMeasurement> others);

/// Returns the measurements of both entries. If both measured a configuration, the measurement with the lower
/// median is kept. The function is commutative and associative. Both entries must have equal members
/// `environment`, `bucket` and `kernels`.
TuningEntry merge_entries(const TuningEntry& a, const TuningEntry& b);

/// Merges the entries of two tuning runs that measured different point clouds. The times of `other` are
/// scaled so that its default configuration takes as long as that of `mine`. Returns `mine` alone if the
/// entries have different default configurations.
TuningEntry merge_runs(const TuningEntry& mine, const TuningEntry& other);

/// Returns the entries as a JSON array, which is the content of the files of a TuningStore and of the tuning
/// sections of kernel bundles. Equal sets of entries give equal bytes in any order.
std::string write_tuning(const std::vector<TuningEntry>& entries);
/// Reads the elements of a JSON array. An element with another schema, or one that lacks or misspells a
/// field, is left out, and the reason is added to `skipped`, which may be null. Fields that this schema does
/// not have are ignored. Returns an error if the text is not a JSON array.
llvm::Expected<std::vector<TuningEntry>> read_tuning(llvm::StringRef text,
                                                     std::vector<std::string>* skipped = nullptr);
/// Returns true if an element of the JSON array has a later schema than this library reads.
bool has_newer_schema(llvm::StringRef text);

/// Returns each distinct environment of the entries once. The pointers point into `entries`.
std::vector<const TuningEnvironment*> environments_of(const std::vector<TuningEntry>& entries);

}  // namespace minuet
