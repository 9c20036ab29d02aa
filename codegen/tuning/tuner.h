// The search for the best configurations: it decides what to measure next and what has won. It is pure: a
// meter measures and provides the clock.
//
// A round tries one configuration of every task at once, because layers do not affect each other's time. So
// the number of rounds is the number of candidates of the largest task. Each round is measured in alternation
// with the default, so that a drifting clock rate affects both.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/tuning/search_space.h"

namespace minuet {

/// Times of one bucket in a round in nanoseconds. Element i of both was measured in direct succession.
struct TuningSamples {
  std::vector<i64> trial, fallback;
};

class TuningMeter {
 public:
  virtual ~TuningMeter() = default;
  /// Returns the time of a monotonic clock.
  virtual double seconds() = 0;
  /// Announces a coming round. Its kernels may be compiled while earlier rounds are measured. An empty round
  /// means that nothing may be compiled during measurements any more.
  virtual void announce(const TuningConfigs& round) = 0;
  /// Measures the buckets of a round with their configurations, in alternation with the default of all
  /// buckets. An empty round only checks that the default runs. Returns Cancelled if measuring must stop. Any
  /// other error means that a configuration of the round does not run.
  virtual llvm::Expected<std::map<TuningBucket, TuningSamples>> measure(const TuningConfigs& round) = 0;
};

struct TuningProgress {
  i64 rounds = 0, most_rounds = 0;  // finished; finished and remaining, if time suffices
  double seconds_left = 0;
};

struct TunerOptions {
  double deadline = 0;       // no round begins if it and a confirming round are expected to end later
  double round_seconds = 0;  // expected duration of a round before one was measured
  i64 most_tried = 0;        // candidates per task; 0: all
  std::function<void(const TuningProgress&)> progress;  // called after each round; may be empty
  /// Called for each candidate that does not run; may be empty.
  std::function<void(const TuningBucket&, const TuningConfig&, const std::string& reason)> skipped;
};

/// The result of a task for which something was measured.
struct TuningDecision {
  TuningBucket bucket;
  TuningMeasurement fallback;  // the default
  /// The configuration that beat the default twice. If the search was stopped before the second measurement,
  /// the one that beat it once.
  std::optional<TuningMeasurement> winner;
  std::vector<TuningMeasurement> others;  // not faster than the winner, or than the default if there is none
};

struct TuningOutcome {
  std::vector<TuningDecision> decisions;
  i64 tried = 0, skipped = 0;          // candidates
  bool stopped = false;                // true if the meter returned Cancelled
  std::optional<StatusError> failure;  // set if the default fails too; earlier decisions are kept
};

/// Returns true if the trial wins by more than the spread of the differences (between the quartiles) and by
/// at least one percent.
bool beats(const TuningSamples& samples);

/// Returns true if a trial's output equals the default's except for rounding, so that wrong kernels are
/// rejected: within 1/32 of the greatest value, and finite at the same places. Sums in another order differ
/// by at most 1/100 in bf16.
bool agrees(const std::vector<float>& trial, const std::vector<float>& fallback);

TuningOutcome search_configs(const std::vector<TuningTask>& tasks, TuningMeter& meter,
                             const TunerOptions& options);

/// Returns the entry to store for a decision.
TuningEntry entry_of(const TuningEnvironment& environment, const TuningDecision& decision);

}  // namespace minuet
