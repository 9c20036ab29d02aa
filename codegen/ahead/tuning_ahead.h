// Results that go into bundles, for GPUs that are elsewhere (R20, R35).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/tuning/tuning_store.h"

namespace minuet {

/// Results by architecture.
using ArchTuning = std::map<std::string, std::vector<TuningEntry>>;

/// What the store has for GPUs of each of `archs`, by this build's kernels and `toolkit`. `warn` is told of
/// what cannot be read, and of an architecture for which there is nothing. NotFound where there is nothing
/// for any of them.
llvm::Expected<ArchTuning> read_tuning_for(TuningStore& store, const std::vector<std::string>& archs,
                                           const std::string& toolkit,
                                           const std::function<void(const std::string&)>& warn);

/// The tuning section of a bundle, which may be empty, with `entries` in it, in the place of those that it
/// has of the same buckets. FailedPrecondition where it has what this build cannot read, and would lose.
llvm::Expected<std::string> join_tuning(llvm::StringRef section, const std::vector<TuningEntry>& entries);

}  // namespace minuet
