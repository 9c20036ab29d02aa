// The Map step by itself: the library's, and the hash table's.
#pragma once

#include <vector>

#include "tools/bench/study/baseline.h"
#include "tools/bench/study/maps.h"

namespace minuet::tool {

/// Milliseconds by the host's clock, of all levels or all maps together, one number a repeat.
struct MapStepSamples {
  std::vector<double> hash_build, hash_query;  ///< the tables of coordinates that are given; their queries
  std::vector<double> binary_query;            ///< sorted queries, each through all sorted sources
  std::vector<double> library_build, library_query;  ///< sets from unsorted coordinates; double-traversed
  int64_t pairs = 0;

  std::vector<double> hash() const;     ///< both parts
  std::vector<double> binary() const;   ///< over the library's build
  std::vector<double> library() const;  ///< both parts
};

/// Of the cloud's first variant. An error where the three do not find the same number of pairs.
llvm::Expected<MapStepSamples> time_map_step(StudyBench& bench, const Baseline& baseline,
                                             const StudyCloud& cloud, const LevelSets& levels);

/// One level and one submanifold map of kernel 3.
llvm::Expected<LevelSets> one_map(const StudyBench& bench, const StudyCloud& cloud);

}  // namespace minuet::tool
