// Times the two parts of the Map step, build and query, for several numbers of voxels (section 6.4 of the
// paper).
#include <algorithm>

#include "tools/bench/study/map_step.h"
#include "tools/bench/study/studies.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

double quotient(const std::vector<double>& slow, const std::vector<double>& fast) {
  return median(slow) / median(fast);
}

/// Returns the reasons why sorted queries may not be faster on this device. For example, they gain nothing if
/// the hash table fits the cache.
std::string map_reason(const StudyBench& bench) {
  return bench.facts().is_cpu()
             ? "at these numbers of voxels, the hash table fits the CPU's caches"
             : "the hash table has none of the overheads of the engines that the paper compares with, and "
               "this GPU is not the paper's: " +
                   bench.cache_text();
}

void claim_queries(const StudyBench& bench, StudyDocument& document, const std::vector<double>& query,
                   const std::vector<double>& build, const std::vector<double>& by_size) {
  const bool wins = geometric_mean(query) > 1;
  document.claim("the speedup of queries over hash tables is 15.8 x on average (2.72 x to 26.8 x)",
                 "the speedup of the double-traversed search is " + speedups_text(query), verdict(wins),
                 wins ? "" : map_reason(bench));
  const bool builds = geometric_mean(build) > 1;
  document.claim("sorting takes less time than building hash tables",
                 "the speedup of the library's sort is " + speedups_text(build), verdict(builds),
                 builds ? ""
                        : "the library's time includes making the keys and removing duplicates, but the hash "
                          "table's time does not");
  if (by_size.size() > 1) {
    const bool grows = by_size.back() >= by_size.front();
    document.claim(
        "the speedup of queries over hash tables grows with the number of points, because large tables do "
        "not fit the caches",
        "the speedup of the double-traversed search over hash tables is " + times_text(by_size.front()) +
            " for the fewest voxels and " + times_text(by_size.back()) + " for the most voxels",
        verdict(grows), grows ? "" : map_reason(bench));
  }
  document.claim("more than 95 % of accesses hit the L2 cache",
                 "the study does not read the hardware counters of the cache", Verdict::NotMeasured,
                 "NVIDIA Nsight Compute can measure the hit rate: ncu --metrics lts__t_sector_hit_rate.pct");
}

}  // namespace

llvm::Error study_map(StudyBench& bench, StudyDocument& document) {
  document.note(
      std::string("The times are those of one submanifold kernel map of kernel size 3, ") +
      clock_text(bench) +
      ". \"Build\" is the time to sort the coordinates, to insert 64-bit keys into a hash table that is at "
      "most half full in the end, or to make an index of the voxels. \"Query\" is the time to find the map "
      "and its number of pairs by hashing, by plain binary search of the sorted sources, by the library's "
      "double-traversed search, or by the index.");
  document.note(library_maps_text(bench));
  MINUET_ASSIGN(const std::unique_ptr<Baseline> baseline, Baseline::create(bench));
  std::vector<StudyCloud> clouds;
  for (const int64_t count : bench.by_size(std::vector<int64_t>{300, 1000}, {3000, 30000, 300000},
                                           {10000, 100000, 300000, 1000000, 3000000})) {
    clouds.push_back(bench.random_cloud(count, bench.by_size(60, 400, 400)));
  }
  MINUET_ASSIGN(const auto* scenes, bench.clouds());
  clouds.insert(clouds.end(), scenes->begin(), scenes->end());
  StudyPlot query_plot("Query", "line", axis("random voxels", true), axis("ms", true));
  StudyPlot build_plot("Build", "line", axis("random voxels", true), axis("ms", true));
  StudyPlot scene_plot("Query over the scenes", "bar", axis(""), axis("ms"));
  std::vector<double> query, build, by_size;
  StudySteps steps(bench, clouds.size());
  for (const StudyCloud& cloud : clouds) {
    MINUET_ASSIGN(const LevelSets levels, one_map(bench, cloud));
    MINUET_ASSIGN(const MapStepSamples times, time_map_step(bench, *baseline, cloud, levels));
    query.push_back(quotient(times.hash_query, times.sorted.map));
    build.push_back(quotient(times.hash_build, times.sorted.sort));
    const bool is_random = cloud.name.rfind("random", 0) == 0;
    StudyPlot& plot = is_random ? query_plot : scene_plot;
    const llvm::json::Value x = is_random ? llvm::json::Value(cloud.voxels()) : llvm::json::Value(cloud.name);
    plot.add("hash table", x, times.hash_query);
    plot.add("binary search", x, times.binary_query);
    plot.add("double-traversed", x, times.sorted.map);
    plot.add("index", x, times.indexed.map);
    if (is_random) {
      by_size.push_back(query.back());
      build_plot.add("hash table", x, times.hash_build);
      build_plot.add("sort", x, times.sorted.sort);
      build_plot.add("index", x, times.indexed.sort);
    }
    steps.count();
  }
  document.add(std::move(query_plot));
  document.add(std::move(build_plot));
  document.add(std::move(scene_plot));
  claim_queries(bench, document, query, build, by_size);
  return llvm::Error::success();
}

}  // namespace minuet::tool
