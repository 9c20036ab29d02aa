#include "runtime/tuning/samples.h"

namespace minuet {

TuningConfigs with_default(TuningConfigs round, const TuningConfigs& fallback) {
  round.insert(fallback.begin(), fallback.end());  // Configurations of `round` are not replaced.
  return round;
}

[[gnu::cold]] llvm::Error add_samples(i32 repeats, TimePass time,
                                      std::map<TuningBucket, TuningSamples>& samples) {
  // Pass -1 warms up, and its times are discarded. The default and the trial alternate in running first.
  for (i32 pass = -1; pass < repeats; ++pass) {
    std::map<TuningBucket, i64> times[2];  // Element 0 belongs to the default, and element 1 to the trial.
    for (const bool second : {false, true}) {
      const bool is_trial = (pass % 2 == 0) == second;
      MINUET_ASSIGN(times[is_trial ? 1 : 0], time(is_trial));
    }
    if (pass < 0) continue;
    for (const auto& [bucket, nanoseconds] : times[0]) {
      TuningSamples& of_bucket = samples[bucket];
      of_bucket.fallback.resize(repeats);
      of_bucket.trial.resize(repeats);
      of_bucket.fallback[pass] += nanoseconds;
      of_bucket.trial[pass] += times[1][bucket];
    }
  }
  return llvm::Error::success();
}

}  // namespace minuet
