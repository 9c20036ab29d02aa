// Times the Map step by itself: the library's and the baseline's.
#pragma once

#include <vector>

#include "tools/bench/study/baseline.h"
#include "tools/bench/study/maps.h"

namespace minuet::tool {

/// Milliseconds by the host's clock, summed over all levels or all maps; one number for each repeat.
struct MapStepSamples {
  std::vector<double> hash_build, hash_query;  ///< building hash tables of known keys; querying them
  std::vector<double> binary_query;            ///< plain binary search of all sources, with sorted queries
  std::vector<double> library_build, library_query;  ///< sets from unsorted coordinates; kernel maps
  int64_t pairs = 0;

  std::vector<double> hash() const;     ///< hash_build + hash_query
  std::vector<double> binary() const;   ///< library_build + binary_query
  std::vector<double> library() const;  ///< library_build + library_query
};

/// Times the Map step over the cloud's first variant. Fails if the three searches find different numbers of
/// pairs.
llvm::Expected<MapStepSamples> time_map_step(StudyBench& bench, const Baseline& baseline,
                                             const StudyCloud& cloud, const LevelSets& levels);

/// Returns one level with one submanifold kernel map of kernel size 3.
llvm::Expected<LevelSets> one_map(const StudyBench& bench, const StudyCloud& cloud);

}  // namespace minuet::tool
