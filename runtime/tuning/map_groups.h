// Finds the layers whose dataflows depend on each other.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "codegen/choose/tuning_key.h"

namespace minuet {

/// Returns the groups of buckets that must be decided together because their layers read the same map. If
/// layers that read one map ran different dataflows, the map would need views for both. `read` has pairs of a
/// map and a bucket whose layers read it.
std::vector<std::set<TuningBucket>> group_by_map(const std::vector<std::pair<i64, TuningBucket>>& read);

}  // namespace minuet
