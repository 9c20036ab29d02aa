// Loads the tuning results of the user's folder and of bundles as one TuningSnapshot.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/choose/tuning_snapshot.h"
#include "codegen/tuning/tuning_store.h"

namespace minuet {

/// Reads the results that were measured with this build's kernels in `environment`: first those in the store
/// `user`, which may be null, and then those in the tuning sections `bundles`. An earlier result takes
/// precedence over a later one. The toolkit of a bundle's result may differ from that of `environment`. If
/// `environment` names no toolkit, results of every toolkit are read. A store, a section or a result that
/// cannot be read is left out, and `warn` gets the reason.
std::shared_ptr<const TuningSnapshot> load_tuning(const TuningEnvironment& environment, TuningStore* user,
                                                  const std::vector<std::string>& bundles,
                                                  const std::function<void(const std::string&)>& warn);

}  // namespace minuet
