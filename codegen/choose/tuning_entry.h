// The measurements of one bucket in one environment, as a ranked list and as JSON text (R33). Pure.
//
// Times are whole nanoseconds and configurations name whole numbers, so that equal entries are equal
// bytes in every process and locale.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/choose/tuning_key.h"

namespace minuet {

/// A configuration by the names of its fields: {"tile": 16}. What the names mean is in tuned_config.h.
using TuningConfig = std::map<std::string, i64>;

struct TuningMeasurement {
  TuningConfig config;
  i64 median_ns = 0;
  i64 least_ns = 0;
  i64 spread_ns = 0;                      // between the quartiles
  bool is_default = false;                // what is chosen without tuning
  std::string driver;                     // that it was measured with
  std::vector<std::string> request_keys;  // of its kernels
  bool operator==(const TuningMeasurement&) const = default;
};

struct TuningEntry {
  TuningEnvironment environment;
  TuningBucket bucket;
  /// Best first; the default is always among them. What ranks behind the default is kept for a merge
  /// and is never chosen: a tuned configuration has to beat the default (R34).
  std::vector<TuningMeasurement> measurements;
  bool operator==(const TuningEntry&) const = default;
};

/// What a tuning run found, ranked. Where nothing is faster than the default, the default wins.
TuningEntry make_entry(const TuningEnvironment& environment, const TuningBucket& bucket,
                       TuningMeasurement default_measurement, std::vector<TuningMeasurement> others);

/// Union by configuration, of which the least median is kept. Commutative and associative. Both entries are
/// of one environment and bucket.
TuningEntry merge_entries(const TuningEntry& a, const TuningEntry& b);

/// The same of two runs that measured other clouds: what the other one's took is told in units of the
/// default's time there, which is taken to be the default's here. `mine` alone where the default is another.
TuningEntry merge_runs(const TuningEntry& mine, const TuningEntry& other);

/// A JSON array, as files of the store and bundles (R20) have it: equal sets of entries give equal bytes, in
/// whatever order they come.
std::string write_tuning(const std::vector<TuningEntry>& entries);
/// An element of another schema, and one that lacks or misspells a field, is left out, and `skipped`, which
/// may be null, is told why. Fields that this schema does not have are passed over. Text that is no array is
/// an error.
llvm::Expected<std::vector<TuningEntry>> read_tuning(llvm::StringRef text,
                                                     std::vector<std::string>* skipped = nullptr);
/// Whether an element is of a later schema than this library's.
bool has_newer_schema(llvm::StringRef text);

/// The different environments of `entries`, which own them.
std::vector<const TuningEnvironment*> environments_of(const std::vector<TuningEntry>& entries);

}  // namespace minuet
