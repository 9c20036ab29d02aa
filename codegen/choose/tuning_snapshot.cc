#include "codegen/choose/tuning_snapshot.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

#include "codegen/base/arch.h"
#include "codegen/base/number_text.h"
#include "codegen/choose/tuned_config.h"

namespace minuet {
namespace {

/// Returns the best measurement of the entry whose configuration this version of the library can run. Returns
/// nothing if no measurement is marked as the default, or if the default is not the one that this version
/// chooses.
std::optional<TunedResult> choose_result(const TuningEntry& entry, const std::string& layer) {
  const auto& all = entry.measurements;
  const auto today = default_config_of(entry.bucket, entry.environment.compute_capability.empty());
  const auto fastest_default = std::find_if(all.begin(), all.end(), [&](const TuningMeasurement& m) {
    return m.is_default && (!today || m.config == *today);
  });
  if (fastest_default == all.end()) return std::nullopt;
  // Measurements that rank behind the default do not beat it, so the search ends there.
  for (auto candidate = all.begin(); candidate <= fastest_default; ++candidate) {
    if (llvm::errorToBool(validate_config(entry.bucket, candidate->config))) continue;
    return TunedResult{*candidate, fastest_default->median_ns, fastest_default->config, layer, entry.kernels};
  }
  return std::nullopt;
}

double to_milliseconds(i64 nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; }

}  // namespace

std::string TunedResult::reason() const {
  if (best.is_default) {
    return llvm::formatv(": the default, which was the fastest with {0:f3} ms ({1})",
                         real(to_milliseconds(best.median_ns)), layer)
        .str();
  }
  return llvm::formatv(": tuned, {0:f3} ms against {1:f3} ms of the default ({2})",
                       real(to_milliseconds(best.median_ns)), real(to_milliseconds(default_ns)), layer)
      .str();
}

[[gnu::cold]] TuningSnapshot::TuningSnapshot(const TuningEnvironment& environment,
                                             const std::vector<TuningLayer>& layers)
    : environment_(environment) {
  for (const TuningLayer& layer : layers) {
    auto& results = layers_.emplace_back();
    for (const TuningEntry& entry : layer.entries) {
      TuningEnvironment measured = entry.environment;
      measured.toolkit = environment.toolkit;
      if (measured != environment) continue;
      std::optional<TunedResult> result = choose_result(entry, layer.name);
      if (result) results.try_emplace(entry.bucket, std::move(*result));
    }
  }
}

TuningSnapshot::TuningSnapshot(const TuningEnvironment& environment, const TuningConfigs& configs)
    : environment_(environment) {
  auto& results = layers_.emplace_back();
  for (const auto& [bucket, config] : configs) {
    TunedResult& result = results[bucket];
    result.best.config = result.default_config = config;
    result.layer = "on trial";
  }
}

bool TuningSnapshot::serves(llvm::StringRef arch) const {
  if (arch.empty()) return environment_.compute_capability.empty();
  const int number = capability_number(environment_.compute_capability);
  return number != 0 && number == capability(arch);
}

std::size_t TuningSnapshot::size() const {
  std::set<TuningBucket> buckets;
  for (const auto& results : layers_) {
    for (const auto& [bucket, result] : results) buckets.insert(bucket);
  }
  return buckets.size();
}

std::vector<TuningLayer> TuningSnapshot::layers() const {
  std::vector<TuningLayer> layers;
  for (const auto& results : layers_) {
    if (results.empty()) continue;
    TuningLayer& layer = layers.emplace_back();
    layer.name = results.begin()->second.layer;
    for (const auto& [bucket, result] : results) {
      TuningEntry& entry = layer.entries.emplace_back();
      entry.environment = environment_;
      entry.bucket = bucket;
      entry.kernels = result.kernels;
      entry.measurements.push_back(result.best);
      if (result.best.is_default) continue;
      TuningMeasurement& usual = entry.measurements.emplace_back();
      usual.config = result.default_config;
      usual.median_ns = usual.least_ns = result.default_ns;
      usual.is_default = true;
      usual.driver = result.best.driver;
    }
  }
  return layers;
}

const TunedResult* TuningSnapshot::find_exactly(const TuningBucket& bucket) const {
  for (const auto& results : layers_) {
    const auto found = results.find(bucket);
    if (found != results.end()) return &found->second;
  }
  return nullptr;
}

/// Finds the result of a whole layer for this number of rows, for twice as many or for half as many, in this
/// order, and at each number of rows for the first of the densities that has one.
const TunedResult* TuningSnapshot::find_near(const TuningBucket& bucket,
                                             llvm::ArrayRef<i64> densities) const {
  if (bucket.log2_rows == kAnyRows) return nullptr;
  for (const i64 step : {0, 1, -1}) {
    TuningBucket near = bucket;
    near.log2_rows += step;
    for (const i64 density : densities) {
      near.log4_density = density;
      const TunedResult* const result = find_exactly(near);
      if (result != nullptr) return result;
    }
  }
  return nullptr;
}

const TunedResult* TuningSnapshot::find_densest(const TuningBucket& bucket) const {
  std::vector<i64> densities;
  for (i64 log4 = bucket.log4_density; log4 > kAnyDensity; --log4) densities.push_back(log4);
  densities.push_back(kAnyDensity);
  return find_near(bucket, densities);
}

const TunedResult* TuningSnapshot::find(const TuningBucket& bucket) const {
  if (is_of_layer(bucket.operation)) return find_near(bucket, {bucket.log4_density, i64{kAnyDensity}});
  const TunedResult* const exact = bucket.log2_rows != kAnyRows ? find_exactly(bucket) : nullptr;
  if (exact != nullptr) return exact;
  TuningBucket last = bucket;
  last.log2_rows = std::numeric_limits<i64>::max();
  for (const auto& results : layers_) {
    auto found = results.upper_bound(last);
    if (found == results.begin()) continue;
    --found;
    TuningBucket wanted = bucket;
    wanted.log2_rows = found->first.log2_rows;
    if (found->first == wanted) return &found->second;
  }
  return nullptr;
}

}  // namespace minuet
