// Searches for the best configurations. The search decides what to measure next and which configuration has
// won. It is pure, because a TuningMeter measures and provides the clock.
//
// A round tries one configuration of every TuningTask at once, because layers do not affect each other's
// time. So the number of rounds is the number of candidates of the largest task. Each round is measured in
// alternation with the default, so that a drifting clock rate affects both.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/tuning/search_space.h"

namespace minuet {

/// Holds the times in nanoseconds that one round of measurements gave for one bucket of problems
/// (TuningBucket), with the tried configuration (`trial`) and with the default (`fallback`). Elements of both
/// vectors with the same index were measured in direct succession.
struct TuningSamples {
  std::vector<i64> trial, fallback;
};

class TuningMeter {
 public:
  virtual ~TuningMeter() = default;
  /// Returns the time of a monotonic clock in seconds.
  virtual double seconds() = 0;
  /// Announces the configurations of a coming round of measurements. Their kernels may be compiled while
  /// earlier rounds are measured. An empty `round` means that from now on nothing may be compiled during
  /// measurements.
  virtual void announce(const TuningConfigs& round) = 0;
  /// Measures the buckets in `round` with their configurations, in alternation with the default
  /// configurations. If `round` is empty, only checks that these run. Returns Cancelled if measuring must
  /// stop. Any other error means that a configuration in `round` does not run.
  virtual llvm::Expected<std::map<TuningBucket, TuningSamples>> measure(const TuningConfigs& round) = 0;
};

struct TuningProgress {
  /// `rounds` counts the finished rounds of measurements. `most_rounds` also counts the rounds that remain if
  /// the time suffices.
  i64 rounds = 0, most_rounds = 0;
  double seconds_left = 0;
};

struct TunerOptions {
  /// No round of measurements begins if it and a round that measures its winners again are expected to end
  /// after this time of the meter's clock, in seconds.
  double deadline = 0;
  /// Gives the expected duration of a round of measurements in seconds. It is used until a round has ended.
  double round_seconds = 0;
  /// Limits the number of configurations that are tried per TuningTask; 0 means no limit.
  i64 most_tried = 0;
  /// The search calls this function after each round of measurements. It may be empty.
  std::function<void(const TuningProgress&)> progress;
  /// The search calls this function for each configuration that does not run. It may be empty.
  std::function<void(const TuningBucket&, const TuningConfig&, const std::string& reason)> skipped;
};

/// Holds the result of a TuningTask for which something was measured.
struct TuningDecision {
  TuningBucket bucket;
  TuningMeasurement fallback;  // This is the measurement of the default configuration.
  /// Holds the configuration that beat the default twice. If the search was stopped before the second
  /// measurement, it is the one that beat the default once.
  std::optional<TuningMeasurement> winner;
  /// Holds the measurements of other configurations. Those faster than the winner, or than the default if
  /// there is no winner, are left out, because they were not confirmed by a second measurement.
  std::vector<TuningMeasurement> others;
};

struct TuningOutcome {
  std::vector<TuningDecision> decisions;
  i64 tried = 0, skipped = 0;  // These count the configurations that ran and those that did not.
  bool stopped = false;        // This is true if the meter returned Cancelled.
  /// Is set if a tried configuration and then also the default one failed, which ends the search. `decisions`
  /// still holds the results of what was measured before.
  std::optional<StatusError> failure;
};

/// Returns true if the median gain of the tried configuration over the default exceeds both one percent and
/// the spread of the gains, which is the difference between their quartiles.
bool beats(const TuningSamples& samples);

/// Returns true if the output of a tried configuration equals that of the default except for rounding, so
/// that wrong kernels are rejected. The difference may be up to 1/32 of the greatest value, and numbers must
/// be finite at the same places. Sums in another order differ by at most 1/100 in bf16.
bool agrees(const std::vector<float>& trial, const std::vector<float>& fallback);

TuningOutcome search_configs(const std::vector<TuningTask>& tasks, TuningMeter& meter,
                             const TunerOptions& options);

/// Returns the decision in the form in which it is stored.
TuningEntry entry_of(const TuningEnvironment& environment, const TuningDecision& decision);

}  // namespace minuet
