#include "codegen/choose/tuning_entry.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace minuet {
namespace {

void rank(std::vector<TuningMeasurement>& measurements) {
  std::sort(measurements.begin(), measurements.end(),
            [](const TuningMeasurement& a, const TuningMeasurement& b) {
              return std::tuple(a.median_ns, !a.is_default, a.config) <
                     std::tuple(b.median_ns, !b.is_default, b.config);
            });
}

/// Returns the better of two measurements of one configuration by a total order, so that the result does not
/// depend on which one comes first.
const TuningMeasurement& better_of(const TuningMeasurement& a, const TuningMeasurement& b) {
  auto order = [](const TuningMeasurement& m) {
    return std::tie(m.median_ns, m.least_ns, m.spread_ns, m.driver);
  };
  return order(b) < order(a) ? b : a;
}

[[gnu::cold]] std::vector<TuningMeasurement> unite(const std::vector<TuningMeasurement>& all) {
  std::map<TuningConfig, TuningMeasurement> by_config;
  for (const TuningMeasurement& measurement : all) {
    const auto [slot, added] = by_config.try_emplace(measurement.config, measurement);
    if (added) continue;
    const bool is_default = slot->second.is_default || measurement.is_default;
    slot->second = TuningMeasurement(better_of(slot->second, measurement));
    slot->second.is_default = is_default;
  }
  std::vector<TuningMeasurement> united;
  united.reserve(by_config.size());
  for (auto& [config, measurement] : by_config) united.push_back(std::move(measurement));
  rank(united);
  return united;
}

/// Returns the measurement of the default configuration, or null if the entry has none.
const TuningMeasurement* default_of(const TuningEntry& entry) {
  const auto& all = entry.measurements;
  const auto found =
      std::find_if(all.begin(), all.end(), [](const TuningMeasurement& m) { return m.is_default; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

TuningEntry make_entry(const TuningEnvironment& environment, const TuningBucket& bucket,
                       TuningMeasurement default_measurement, std::vector<TuningMeasurement> others) {
  for (TuningMeasurement& measurement : others) measurement.is_default = false;
  default_measurement.is_default = true;
  others.push_back(std::move(default_measurement));
  return {environment, bucket, unite(others), {}};
}

TuningEntry merge_entries(const TuningEntry& a, const TuningEntry& b) {
  std::vector<TuningMeasurement> all = a.measurements;
  all.insert(all.end(), b.measurements.begin(), b.measurements.end());
  return {a.environment, a.bucket, unite(all), a.kernels};
}

[[gnu::cold]] TuningEntry merge_runs(const TuningEntry& mine, const TuningEntry& other) {
  const TuningMeasurement *const my_default = default_of(mine), *const their_default = default_of(other);
  if (my_default == nullptr || their_default == nullptr || my_default->config != their_default->config) {
    return mine;
  }
  const double scale =
      static_cast<double>(my_default->median_ns) / static_cast<double>(their_default->median_ns);
  const auto scaled = [&](i64 ns) { return std::llround(static_cast<double>(ns) * scale); };
  TuningEntry theirs = other;
  for (TuningMeasurement& measurement : theirs.measurements) {
    measurement.median_ns = std::max<i64>(1, scaled(measurement.median_ns));
    measurement.least_ns = scaled(measurement.least_ns);
    measurement.spread_ns = scaled(measurement.spread_ns);
  }
  return merge_entries(mine, theirs);
}

[[gnu::cold]] std::vector<const TuningEnvironment*> environments_of(const std::vector<TuningEntry>& entries) {
  std::vector<const TuningEnvironment*> environments;
  for (const TuningEntry& entry : entries) {
    const bool known = std::any_of(environments.begin(), environments.end(),
                                   [&](auto* environment) { return *environment == entry.environment; });
    if (!known) environments.push_back(&entry.environment);
  }
  return environments;
}

}  // namespace minuet
