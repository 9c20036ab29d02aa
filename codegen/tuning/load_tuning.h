// Loads the tuning results of a folder and of bundles as one snapshot.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/choose/tuning_snapshot.h"
#include "codegen/tuning/tuning_store.h"

namespace minuet {

/// Reads the results of this build's kernels that were measured in `environment`. They come first from the
/// user's store, unless `user` is null, and then from the tuning sections of bundles. If `environment` names
/// no toolkit, results of every toolkit are read. A store, a section or a result that cannot be read is left
/// out, and `warn` gets the reason.
std::shared_ptr<const TuningSnapshot> load_tuning(const TuningEnvironment& environment, TuningStore* user,
                                                  const std::vector<std::string>& bundles,
                                                  const std::function<void(const std::string&)>& warn);

}  // namespace minuet
