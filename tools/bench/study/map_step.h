// Times only the Map step, which makes coordinate sets or hash tables and then kernel maps, for the library
// and for the baseline.
#pragma once

#include <vector>

#include "tools/bench/study/baseline.h"
#include "tools/bench/study/maps.h"

namespace minuet::tool {

/// Holds the samples of all timed repetitions. Each time is in milliseconds, and is a sum over all levels
/// (build, or the stage `sort`) or all kernel maps (query, or the stage `map`). On a GPU, all times are those
/// between events of the GPU.
struct MapStepSamples {
  /// These are the times of inserting keys, which were computed before, into hash tables, and of looking keys
  /// up in these tables.
  std::vector<double> hash_build, hash_query;
  /// These are the times of searching all sorted source keys for each sorted query by plain binary search.
  std::vector<double> binary_query;
  /// These are profiled runs of pooling_network() with both of the library's map methods. The stages `sort`
  /// and `map` make sets from unsorted coordinates, and maps from the sets.
  NetworkSamples sorted, indexed;
  int64_t pairs = 0;

  // Each of the following functions returns the median time to build plus that to query. For the plain binary
  // search, the library's sort is the build.
  double hash_ms() const;
  double binary_ms() const;
  double sorted_ms() const;
  double indexed_ms() const;
};

/// Returns by which clock these times are, as the end of a sentence.
std::string clock_text(const StudyBench& bench);
/// Returns sentences for notes that tell how the library's Map step is timed.
std::string library_maps_text(const StudyBench& bench);

/// Times the Map step over the cloud's first variant. Fails if the library, the hash tables and the plain
/// binary search find different numbers of pairs, or if the library uses another map method than the one
/// that the times are for.
llvm::Expected<MapStepSamples> time_map_step(StudyBench& bench, const Baseline& baseline,
                                             const StudyCloud& cloud, const LevelSets& levels);

}  // namespace minuet::tool
