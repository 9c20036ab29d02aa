// The search for the best configurations: what is measured next, and what has been earned. Pure: a meter
// measures, and tells the time.
//
// A round tries one configuration of every task at once, for layers do not touch each other's time; so it
// takes as many rounds as the task with most candidates has, not as many as there are candidates. Each round
// is measured in turn with the default, so that a clock that drifts moves both.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/tuning/search_space.h"

namespace minuet {

/// Times of one bucket in a round, nanoseconds: [i] of both were taken one right after the other.
struct TuningSamples {
  std::vector<i64> trial, fallback;
};

class TuningMeter {
 public:
  virtual ~TuningMeter() = default;
  /// On a clock that goes forward.
  virtual double seconds() = 0;
  /// This round comes soon: its kernels may be compiled beside what is measured until then. None: nothing is
  /// to be compiled any more beside what is measured.
  virtual void announce(const TuningConfigs& round) = 0;
  /// The round's buckets, each with its configuration, in turn with all buckets as by default. None: whether
  /// the default runs. Cancelled: nothing is measured any more. Any other error: something in the round does
  /// not run.
  virtual llvm::Expected<std::map<TuningBucket, TuningSamples>> measure(const TuningConfigs& round) = 0;
};

struct TuningProgress {
  i64 rounds = 0, most_rounds = 0;  // done; done and to come, where the time is enough
  double seconds_left = 0;
};

struct TunerOptions {
  double deadline = 0;       // no round begins that is expected to end after it, with the one that confirms
  double round_seconds = 0;  // that a round is expected to take, before one was measured
  i64 most_tried = 0;        // candidates of a task; 0: all
  std::function<void(const TuningProgress&)> progress;  // after each round; may be empty
  /// A candidate that does not run, and why; may be empty.
  std::function<void(const TuningBucket&, const TuningConfig&, const std::string& reason)> skipped;
};

/// What became of a task of which something was measured.
struct TuningDecision {
  TuningBucket bucket;
  TuningMeasurement fallback;  // the default
  /// What beats the default, and did so again when it was measured a second time; where the search was
  /// stopped before that, what did so once.
  std::optional<TuningMeasurement> winner;
  std::vector<TuningMeasurement> others;  // no faster than what was decided for
};

struct TuningOutcome {
  std::vector<TuningDecision> decisions;
  i64 tried = 0, skipped = 0;          // candidates
  bool stopped = false;                // Cancelled by the meter
  std::optional<StatusError> failure;  // not even the default runs any more: what was decided before is here
};

/// Whether the trial wins: by more than the spread of the differences, and by a hundredth at least. The
/// spread is the distance of the quartiles.
bool beats(const TuningSamples& samples);

/// Whether a trial's output is the default's but for rounding: a kernel that is fast because it is wrong does
/// not run. Within 1/32 of the greatest value, and finite where that is; sums in another order are 1/100
/// apart at most, in bf16.
bool agrees(const std::vector<float>& trial, const std::vector<float>& fallback);

TuningOutcome search_configs(const std::vector<TuningTask>& tasks, TuningMeter& meter,
                             const TunerOptions& options);

/// As it is kept: the decision's first.
TuningEntry entry_of(const TuningEnvironment& environment, const TuningDecision& decision);

}  // namespace minuet
