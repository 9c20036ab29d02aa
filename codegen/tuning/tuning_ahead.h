// Results that go into bundles, for GPUs that are elsewhere (R20, R35).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/cache/cache_directory.h"
#include "codegen/tuning/tuning_entry.h"

namespace minuet {

/// Results by architecture.
using ArchTuning = std::map<std::string, std::vector<TuningEntry>>;

/// What `directory` (as `minuet tune merge` writes it) has for GPUs that run code of each of `archs`, by
/// this build's kernels and `toolkit`. `warn` is told of what cannot be read, and of an architecture for
/// which nothing is there. InvalidArgument where there is no such folder, or no result in it.
llvm::Expected<ArchTuning> read_tuning_for(const std::string& directory,
                                           const std::vector<std::string>& archs, const std::string& toolkit,
                                           const TrustPolicy& policy,
                                           const std::function<void(const std::string&)>& warn);

/// The tuning section of a bundle with `entries` added.
std::string join_tuning(llvm::StringRef section, std::vector<TuningEntry> entries);

}  // namespace minuet
