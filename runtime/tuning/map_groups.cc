#include "runtime/tuning/map_groups.h"

#include <map>

namespace minuet {

[[gnu::cold]] std::vector<std::set<TuningBucket>> group_by_map(
    const std::vector<std::pair<i64, TuningBucket>>& read) {
  std::map<i64, std::set<TuningBucket>> by_map;
  for (const auto& [map, bucket] : read) by_map[map].insert(bucket);
  std::vector<std::set<TuningBucket>> groups;
  for (auto& [map, group] : by_map) {
    for (std::set<TuningBucket>& other : groups) {
      bool is_shared = false;
      for (const TuningBucket& bucket : other) is_shared = is_shared || group.count(bucket) != 0;
      if (is_shared) group.swap(other), group.merge(other), other.clear();
    }
    groups.push_back(std::move(group));
  }
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  return groups;
}

}  // namespace minuet
