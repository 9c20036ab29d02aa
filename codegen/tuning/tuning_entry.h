// The measurements of one bucket in one environment, as a ranked list and as JSON text (R33). Pure.
//
// Times are whole nanoseconds and configurations name whole numbers, so that equal entries are equal
// bytes in every process and locale.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/tuning/tuning_key.h"

namespace minuet {

/// A configuration by the names of its fields: {"tile": 16}. What the names mean is in tuned_config.h.
using TuningConfig = std::map<std::string, i64>;

struct TuningMeasurement {
  TuningConfig config;
  i64 median_ns = 0;
  i64 least_ns = 0;
  i64 spread_ns = 0;                      // between the quartiles
  bool is_default = false;                // what is chosen without tuning
  bool migrated = false;                  // of another library version or toolkit: due to be measured again
  std::string driver;                     // that it was measured with
  std::vector<std::string> request_keys;  // of its kernels; none where migrated
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

/// Union by configuration: a fresh measurement before a migrated one, then the least median. Commutative
/// and associative. Both entries are of one environment and bucket.
TuningEntry merge_entries(const TuningEntry& a, const TuningEntry& b);

std::string print_entry(const TuningEntry& entry);

/// An error for text of another schema, and for text that lacks or misspells a field; to a reader of the
/// store both are a miss. Fields that this schema does not have are passed over.
llvm::Expected<TuningEntry> parse_entry(llvm::StringRef text);

/// The tuning layer of a bundle (R20): equal sets of entries give equal bytes, in whatever order they come.
std::string write_tuning_section(const std::vector<TuningEntry>& entries);
/// An element of another schema is left out; bytes that are no such section are an error.
llvm::Expected<std::vector<TuningEntry>> read_tuning_section(llvm::StringRef bytes);

}  // namespace minuet
