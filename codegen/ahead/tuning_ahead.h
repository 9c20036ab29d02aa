// Selects tuning results of the local store for bundles, which other machines use.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/tuning/tuning_store.h"

namespace minuet {

/// Tuning results by architecture.
using ArchTuning = std::map<std::string, std::vector<TuningEntry>>;

/// Returns the store's results for GPUs of each of `archs` that were measured with this build's kernels and
/// `toolkit`. Calls `warn` for results that cannot be read and for architectures without results. Returns
/// NotFound if no architecture has results.
llvm::Expected<ArchTuning> read_tuning_for(TuningStore& store, const std::vector<std::string>& archs,
                                           const std::string& toolkit,
                                           const std::function<void(const std::string&)>& warn);

/// Returns the tuning section of a bundle, which may be empty, with `entries` added. They replace the
/// measurements of entries with the same environment and bucket. Returns FailedPrecondition if the section
/// has entries that this build cannot read, because they would be lost.
llvm::Expected<std::string> join_tuning(llvm::StringRef section, const std::vector<TuningEntry>& entries);

}  // namespace minuet
