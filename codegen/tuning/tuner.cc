#include "codegen/tuning/tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace minuet {
namespace {

constexpr double kLeastGain = 0.01;  // A winner saves more than this fraction of the default's time.
constexpr int kConfirmations = 3;    // This many configurations per task may be measured again.
constexpr std::size_t kLeastSamples = 3;

/// Returns the quantile `rank` (between 0 and 1) of the values, or 0 if there are none. It interpolates
/// between neighbouring values.
double quantile(std::vector<double> values, double rank) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = rank * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}
double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }
double spread(const std::vector<double>& values) { return quantile(values, 0.75) - quantile(values, 0.25); }

std::vector<double> as_doubles(const std::vector<i64>& values) { return {values.begin(), values.end()}; }

/// Returns for each pair of times the fraction of the default's time that the tried configuration saved. A
/// drifting clock rate does not change these fractions.
std::vector<double> gains(const TuningSamples& samples) {
  std::vector<double> gains;
  for (std::size_t i = 0; i < std::min(samples.trial.size(), samples.fallback.size()); ++i) {
    const double fallback = std::max(static_cast<double>(samples.fallback[i]), 1.0);
    gains.push_back(1 - static_cast<double>(samples.trial[i]) / fallback);
  }
  return gains;
}

i64 differing_fields(const TuningConfig& a, const TuningConfig& b) {
  return std::count_if(a.begin(), a.end(), [&](const auto& field) {
    const auto found = b.find(field.first);
    return found == b.end() || found->second != field.second;
  });
}

/// Holds the measurement of a configuration in one round of the search (tuner.h). The times are fractions of
/// the time of the default configuration in that round.
struct Result {
  TuningConfig config;
  double time = 1, least = 1, spread = 0;
  bool wins = false;
};

Result result_of(const TuningConfig& config, const TuningSamples& samples) {
  const double unit = std::max(median(as_doubles(samples.fallback)), 1.0);
  const std::vector<double> trial = as_doubles(samples.trial);
  return {config, 1 - median(gains(samples)), quantile(trial, 0) / unit, spread(trial) / unit,
          beats(samples)};
}

/// Holds the state of the search for one task.
struct Search {
  const TuningTask* task = nullptr;
  std::vector<bool> taken;         // An element is true if its configuration was measured or soon will be.
  std::vector<Result> results;     // These are the first measurements of the tried configurations.
  std::vector<Result> refused;     // These configurations cannot win: they failed to run or won only once.
  std::optional<Result> winner;    // This is the result that won a second time.
  std::vector<i64> default_times;  // These are all measured times of the default configuration.

  i64 tried() const { return std::count(taken.begin(), taken.end(), true); }

  /// Returns the fastest result that beat the default and is not in `refused`, or null.
  const Result* best() const {
    const Result* best = nullptr;
    for (const Result& result : results) {
      const auto is_same = [&](const Result& other) { return other.config == result.config; };
      if (!result.wins || std::any_of(refused.begin(), refused.end(), is_same)) continue;
      if (best == nullptr || result.time < best->time) best = &result;
    }
    return best;
  }

  /// Returns the index of the configuration to try next. It differs in the fewest fields from the best
  /// configuration so far, or from the default if none has beaten it. Of configurations with equally many
  /// such fields, the first is returned.
  std::optional<std::size_t> next() const {
    if (task->has_favourite && !taken[0]) return 0;
    const Result* const leader = best();
    const TuningConfig& center = leader != nullptr ? leader->config : task->default_config;
    std::optional<std::size_t> nearest;
    i64 least = std::numeric_limits<i64>::max();
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const i64 distance = taken[i] ? least : differing_fields(task->candidates[i], center);
      if (distance < least) nearest = i, least = distance;
    }
    return nearest;
  }
};

class Tuner {
 public:
  Tuner(const std::vector<TuningTask>& tasks, TuningMeter& meter, const TunerOptions& options)
      : meter_(meter), options_(options), start_(meter.seconds()) {
    for (const TuningTask& task : tasks) {
      Search& search = searches_[task.bucket];
      search.task = &task;
      search.taken.assign(task.candidates.size(), false);
    }
  }

  [[gnu::cold]] TuningOutcome run() {
    if (llvm::Error error = search()) {
      StatusError status = take_status(std::move(error));
      outcome_.stopped = status.code() == StatusCode::Cancelled;
      if (!outcome_.stopped) outcome_.failure = std::move(status);
    }
    for (const auto& [bucket, search] : searches_) {
      if (!search.default_times.empty()) outcome_.decisions.push_back(decide(bucket, search));
    }
    return std::move(outcome_);
  }

 private:
  [[gnu::cold]] llvm::Error search() {
    TuningConfigs round = pick();
    if (!round.empty()) meter_.announce(round);
    // The time must suffice for this round of measurements and for one that measures the winners again.
    while (!round.empty() && has_time(2)) {
      // The configurations of the next round of measurements are picked before this round is measured, so
      // that their kernels compile meanwhile.
      TuningConfigs next = pick();
      if (!next.empty()) meter_.announce(next);
      MINUET_TRY(measure(round, /*confirms=*/false));
      ++rounds_;
      tell_progress(static_cast<i64>(!next.empty()));
      round = std::move(next);
    }
    meter_.announce({});  // From now on, no kernel is compiled during measurements.
    for (int i = 0; i < kConfirmations; ++i) {
      const TuningConfigs winners = unconfirmed();
      if (winners.empty()) return llvm::Error::success();
      if (i > 0 && !has_time(1)) break;  // The loop above left time for the first round of this loop.
      MINUET_TRY(measure(winners, /*confirms=*/true));
      ++rounds_;
    }
    // Winners that were not measured a second time for lack of time do not count.
    for (auto& [bucket, search] : searches_) {
      for (const Result* left = search.winner ? nullptr : search.best(); left; left = search.best()) {
        search.refused.push_back(*left);
      }
    }
    return llvm::Error::success();
  }

  bool may_try(const Search& search) const {
    return options_.most_tried == 0 || search.tried() < options_.most_tried;
  }

  TuningConfigs pick() {
    TuningConfigs round;
    for (auto& [bucket, search] : searches_) {
      const std::optional<std::size_t> next = may_try(search) ? search.next() : std::nullopt;
      if (!next) continue;
      search.taken[*next] = true;
      round[bucket] = search.task->candidates[*next];
    }
    return round;
  }

  double seconds_a_round() {
    return rounds_ == 0 ? options_.round_seconds : (meter_.seconds() - start_) / static_cast<double>(rounds_);
  }
  bool has_time(int rounds) { return meter_.seconds() + rounds * seconds_a_round() <= options_.deadline; }

  void tell_progress(i64 picked) {
    if (!options_.progress) return;
    i64 most = 0;
    for (const auto& [bucket, search] : searches_) {
      const i64 left = static_cast<i64>(search.taken.size()) - search.tried();
      most = std::max(most,
                      options_.most_tried == 0 ? left : std::min(left, options_.most_tried - search.tried()));
    }
    const i64 to_come = most + picked + 1;  // The 1 stands for the round that measures the winners again.
    const double by_rounds = seconds_a_round() * static_cast<double>(to_come);
    const double by_clock = std::max(0.0, options_.deadline - meter_.seconds());
    options_.progress({rounds_, rounds_ + to_come, std::min(by_rounds, by_clock)});
  }

  TuningConfigs unconfirmed() const {
    TuningConfigs round;
    for (const auto& [bucket, search] : searches_) {
      const Result* const best = search.winner ? nullptr : search.best();
      if (best != nullptr) round[bucket] = best->config;
    }
    return round;
  }

  /// Measures configurations of several tasks together. If they do not run, measures each half of them, and
  /// skips configurations that do not run even alone.
  [[gnu::cold]] llvm::Error measure(const TuningConfigs& round, bool confirms) {
    llvm::Expected<std::map<TuningBucket, TuningSamples>> samples = meter_.measure(round);
    if (samples) {
      take(round, *samples, confirms);
      return llvm::Error::success();
    }
    StatusError status = take_status(samples.takeError());
    if (status.code() == StatusCode::Cancelled) return llvm::make_error<StatusError>(std::move(status));
    if (round.size() == 1) return skip(*round.begin(), status.message());
    auto middle = round.begin();
    std::advance(middle, round.size() / 2);
    MINUET_TRY(measure(TuningConfigs(round.begin(), middle), confirms));
    return measure(TuningConfigs(middle, round.end()), confirms);
  }

  llvm::Error skip(const TuningConfigs::value_type& candidate, const std::string& reason) {
    ++outcome_.skipped;
    if (options_.skipped) options_.skipped(candidate.first, candidate.second, reason);
    Search& search = searches_[candidate.first];
    search.refused.push_back({candidate.second});
    // If the failure has broken the device, the configurations that follow would fail too, although they are
    // not at fault. So the default configuration is measured to see whether it still runs.
    llvm::Expected<std::map<TuningBucket, TuningSamples>> fallback = meter_.measure({});
    return fallback ? llvm::Error::success()
                    : annotate(fallback.takeError(), "the default configuration no longer runs");
  }

  void take(const TuningConfigs& round, const std::map<TuningBucket, TuningSamples>& samples, bool confirms) {
    for (const auto& [bucket, config] : round) {
      const auto found = samples.find(bucket);
      if (found == samples.end()) continue;
      Search& search = searches_[bucket];
      search.default_times.insert(search.default_times.end(), found->second.fallback.begin(),
                                  found->second.fallback.end());
      Result result = result_of(config, found->second);
      if (!confirms) {
        ++outcome_.tried;
        search.results.push_back(std::move(result));
      } else if (result.wins) {
        search.winner = std::move(result);
      } else {
        search.refused.push_back(std::move(result));
      }
    }
  }

  static TuningDecision decide(const TuningBucket& bucket, const Search& search) {
    const std::vector<double> times = as_doubles(search.default_times);
    const double unit = std::max(median(times), 1.0);
    const auto nanoseconds = [&](double share) { return std::max<i64>(1, std::llround(share * unit)); };
    const auto measurement = [&](const Result& result) {
      TuningMeasurement made;
      made.config = result.config;
      made.median_ns = nanoseconds(result.time);
      made.least_ns = nanoseconds(result.least);
      made.spread_ns = std::llround(result.spread * unit);
      return made;
    };
    TuningDecision decision{bucket, measurement({search.task->default_config}), {}, {}};
    decision.fallback.least_ns = nanoseconds(quantile(times, 0) / unit);
    decision.fallback.spread_ns = std::llround(spread(times));
    decision.fallback.is_default = true;
    const Result* const winner = search.winner ? &*search.winner : search.best();
    if (winner != nullptr) decision.winner = measurement(*winner);
    const i64 decided = winner != nullptr ? decision.winner->median_ns : decision.fallback.median_ns;
    for (const Result& result : search.results) {
      const bool is_winner = winner != nullptr && result.config == winner->config;
      TuningMeasurement other = measurement(result);
      if (!is_winner && other.median_ns >= decided) decision.others.push_back(std::move(other));
    }
    return decision;
  }

  TuningMeter& meter_;
  const TunerOptions& options_;
  const double start_;
  i64 rounds_ = 0;
  std::map<TuningBucket, Search> searches_;
  TuningOutcome outcome_;
};

}  // namespace

bool beats(const TuningSamples& samples) {
  const std::vector<double> parts = gains(samples);
  return parts.size() >= kLeastSamples && median(parts) > std::max(spread(parts), kLeastGain);
}

bool agrees(const std::vector<float>& trial, const std::vector<float>& fallback) {
  if (trial.size() != fallback.size()) return false;
  float greatest = 0, error = 0;
  for (std::size_t i = 0; i < trial.size(); ++i) {
    if (std::isfinite(trial[i]) != std::isfinite(fallback[i])) return false;
    if (!std::isfinite(trial[i])) continue;
    greatest = std::max(greatest, std::abs(fallback[i]));
    error = std::max(error, std::abs(trial[i] - fallback[i]));
  }
  return error <= greatest / 32;
}

[[gnu::cold]] TuningOutcome search_configs(const std::vector<TuningTask>& tasks, TuningMeter& meter,
                                           const TunerOptions& options) {
  return Tuner(tasks, meter, options).run();
}

[[gnu::cold]] TuningEntry entry_of(const TuningEnvironment& environment, const TuningDecision& decision) {
  std::vector<TuningMeasurement> others = decision.others;
  if (decision.winner) others.push_back(*decision.winner);
  return with_kernels_of_this_build(
      make_entry(environment, decision.bucket, decision.fallback, std::move(others)));
}

}  // namespace minuet
