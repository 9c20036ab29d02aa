// Times only the Map step, for the library and for the baseline.
#pragma once

#include <vector>

#include "tools/bench/study/baseline.h"
#include "tools/bench/study/maps.h"

namespace minuet::tool {

/// Holds times in milliseconds by the host's clock, summed over all levels or all maps, one for each repeat.
struct MapStepSamples {
  /// These time the building of hash tables of known keys, and the lookups in them.
  std::vector<double> hash_build, hash_query;
  /// Times plain binary search of all sources, with sorted queries.
  std::vector<double> binary_query;
  /// These time the making of coordinate sets from unsorted coordinates, and of kernel maps.
  std::vector<double> library_build, library_query;
  int64_t pairs = 0;

  std::vector<double> hash() const;     ///< Returns hash_build + hash_query.
  std::vector<double> binary() const;   ///< Returns library_build + binary_query.
  std::vector<double> library() const;  ///< Returns library_build + library_query.
};

/// Times the Map step over the cloud's first variant. Fails if the three searches find different numbers of
/// pairs.
llvm::Expected<MapStepSamples> time_map_step(StudyBench& bench, const Baseline& baseline,
                                             const StudyCloud& cloud, const LevelSets& levels);

/// Returns one level with one submanifold kernel map of kernel size 3.
llvm::Expected<LevelSets> one_map(const StudyBench& bench, const StudyCloud& cloud);

}  // namespace minuet::tool
