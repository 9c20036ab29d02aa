// Selects results from this machine's store of tuning results (tuning_store.h) and adds them to bundles,
// which other machines use.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/source/keys.h"
#include "codegen/tuning/tuning_store.h"

namespace minuet {

/// Maps an architecture, such as "sm_90a", to the tuning results that were measured on its GPUs.
using ArchTuning = std::map<std::string, std::vector<TuningEntry>>;

/// Returns, for each of `archs`, the results in the store that were measured on GPUs of that architecture
/// with this build's kernels and the toolkit version `toolkit`. Results for the gradients of weights are left
/// out unless `weight_gradients` is true. Calls `warn` for results that cannot be read and for architectures
/// without results. Returns NotFound if no architecture has results.
llvm::Expected<ArchTuning> read_tuning_for(TuningStore& store, const std::vector<std::string>& archs,
                                           const std::string& toolkit, bool weight_gradients,
                                           const std::function<void(const std::string&)>& warn);

/// Returns requests for the kernels on `arch` that the results for the gradients of weights choose.
std::vector<KernelRequest> weight_gradient_requests(const std::vector<TuningEntry>& results,
                                                    llvm::StringRef arch);

/// Adds `entries` to `section`, which is the tuning section of a bundle and may be empty, and returns the new
/// section. An entry replaces the one of the section with the same environment and bucket (tuning_key.h).
/// Returns FailedPrecondition if the section has entries that this build cannot read, because they would be
/// lost.
llvm::Expected<std::string> join_tuning(llvm::StringRef section, const std::vector<TuningEntry>& entries);

}  // namespace minuet
