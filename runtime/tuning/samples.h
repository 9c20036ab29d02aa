// Measures the default and a trial in alternation.
#pragma once

#include <map>

#include "codegen/tuning/tuner.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

/// Returns the configurations of a round, and those of the default for all other buckets.
TuningConfigs with_default(TuningConfigs round, const TuningConfigs& fallback);

/// Returns the nanoseconds of each bucket of a round in one pass with the default, or with the trial.
using TimePass = llvm::function_ref<llvm::Expected<std::map<TuningBucket, i64>>(bool is_trial)>;

/// Makes a pass that warms up and `repeats` timed passes of both, and adds the times to those of the passes
/// with the same numbers.
llvm::Error add_samples(i32 repeats, TimePass time, std::map<TuningBucket, TuningSamples>& samples);

}  // namespace minuet
