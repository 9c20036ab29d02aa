// Times only the Map step, which makes coordinate sets or hash tables and then kernel maps, for the library
// and for the baseline.
#pragma once

#include <vector>

#include "tools/bench/study/baseline.h"
#include "tools/bench/study/maps.h"

namespace minuet::tool {

/// Holds times in milliseconds by the host's clock, one for each repetition. Each is a sum over all levels
/// (build) or all kernel maps (query).
struct MapStepSamples {
  /// These are the times of inserting keys, which were computed before, into hash tables, and of looking keys
  /// up in these tables.
  std::vector<double> hash_build, hash_query;
  /// These are the times of searching all sorted source keys for each sorted query by plain binary search.
  std::vector<double> binary_query;
  /// These are the times in which the library makes coordinate sets from unsorted coordinates, and kernel
  /// maps from the sets.
  std::vector<double> library_build, library_query;
  int64_t pairs = 0;

  std::vector<double> hash() const;     ///< Returns hash_build + hash_query for each repetition.
  std::vector<double> binary() const;   ///< Returns library_build + binary_query for each repetition.
  std::vector<double> library() const;  ///< Returns library_build + library_query for each repetition.
};

/// Times the Map step over the cloud's first variant. Fails if the library, the hash tables and the plain
/// binary search find different numbers of pairs.
llvm::Expected<MapStepSamples> time_map_step(StudyBench& bench, const Baseline& baseline,
                                             const StudyCloud& cloud, const LevelSets& levels);

/// Returns one level with one submanifold kernel map of kernel size 3.
llvm::Expected<LevelSets> one_map(const StudyBench& bench, const StudyCloud& cloud);

}  // namespace minuet::tool
