#include "tools/bench/study/map_step.h"

#include "tools/bench/study/studies.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

/// Holds the keys, hash tables and kernel maps of the baseline for the levels of a cloud.
struct BaselineData {
  std::vector<BaselineLevel> levels;
  std::vector<BaselineMap> maps;
};

llvm::Expected<BaselineData> make_room(const StudyBench& bench, const Baseline& baseline,
                                       const StudyCloud& cloud, const LevelSets& levels) {
  BaselineData room;
  for (const CoordinatesHandle& set : levels.sets) {
    std::vector<int32_t> coordinates = cloud.variants.front().coordinates;
    if (!room.levels.empty()) {
      coordinates.resize(4 * static_cast<size_t>(minuet_coordinates_rows(set.get())));
      MINUET_ASSIGN(const DeviceBuffer exported,
                    DeviceBuffer::allocate(bench.device(), 4 * coordinates.size()));
      MINUET_TRY(check(minuet_coordinates_export(set.get(), static_cast<int32_t*>(exported.get()), nullptr)));
      MINUET_TRY(check(minuet_device_synchronize(bench.device(), nullptr)));
      MINUET_TRY(exported.download(coordinates.data()));
    }
    MINUET_ASSIGN(BaselineLevel level, baseline.make_level(coordinates));
    room.levels.push_back(std::move(level));
  }
  for (const MapShape& shape : levels.maps) {
    MINUET_ASSIGN(BaselineMap map, baseline.make_map(shape.kernel_size, levels.strides[shape.fine],
                                                     room.levels[shape.coarse].count));
    map.sources = shape.fine;
    map.queries = shape.coarse;
    room.maps.push_back(std::move(map));
  }
  return room;
}

llvm::Error check_pairs(int64_t one, int64_t other) {
  if (one == other) return llvm::Error::success();
  return broken(
      llvm::formatv("two searches of the same map find different numbers of pairs, {0} and {1}", one, other)
          .str());
}

llvm::Error time_baseline(const Baseline& baseline, const BaselineData& room, MapStepSamples& samples) {
  const auto build = [&]() -> llvm::Error {
    for (const BaselineLevel& level : room.levels) MINUET_TRY(baseline.build(level));
    return llvm::Error::success();
  };
  MINUET_ASSIGN(const double build_ms, baseline.milliseconds(build));
  samples.hash_build.push_back(build_ms);
  for (const bool by_hash : {true, false}) {
    const auto query = [&]() -> llvm::Error {
      for (const BaselineMap& map : room.maps)
        MINUET_TRY(baseline.query(map, room.levels[map.sources], room.levels[map.queries], by_hash));
      return llvm::Error::success();
    };
    MINUET_ASSIGN(const double query_ms, baseline.milliseconds(query));
    (by_hash ? samples.hash_query : samples.binary_query).push_back(query_ms);
    int64_t found = 0;
    for (const BaselineMap& map : room.maps) {
      MINUET_ASSIGN(const int64_t pairs, baseline.pairs(map));
      found += pairs;
    }
    if (samples.pairs == 0) samples.pairs = found;
    MINUET_TRY(check_pairs(samples.pairs, found));
  }
  return llvm::Error::success();
}

/// Times the library's sets and maps. Only executions of whole networks can use the sorted ones: single sets
/// and maps are always made by the index.
llvm::Expected<NetworkSamples> time_library(StudyBench& bench, const StudyCloud& cloud,
                                            const LevelSets& levels, minuet_map_method method,
                                            int64_t pairs) {
  const NetworkCase wanted{pooling_network(levels), bench.dtype(), MINUET_DATAFLOW_AUTO, method};
  MINUET_ASSIGN(NetworkSamples samples, bench.time_network(wanted, {cloud.name, {cloud.variants.front()}}));
  for (const minuet_level_info& level : samples.levels) {
    if (level.map_method != method)
      return broken("the library made a coordinate set by another map method than the study asked for");
  }
  int64_t found = 0;
  for (const LayerSamples& layer : samples.layers) found += layer.volume() > 1 ? layer.info.pairs : 0;
  MINUET_TRY(check_pairs(pairs, found));
  return samples;
}

}  // namespace

double MapStepSamples::hash_ms() const { return median(hash_build) + median(hash_query); }
double MapStepSamples::binary_ms() const { return median(sorted.sort) + median(binary_query); }
double MapStepSamples::sorted_ms() const { return median(sorted.sort_map); }
double MapStepSamples::indexed_ms() const { return median(indexed.sort_map); }

std::string clock_text(const StudyBench& bench) {
  return bench.facts().is_cpu() ? "by the host's clock" : "by events of the GPU";
}

std::string library_maps_text(const StudyBench& bench) {
  return std::string(
             "The library's Map step is timed by the stages `sort` and `map` of profiled runs of a network "
             "of "
             "poolings that has just these maps: by the paper's sort and double-traversed search, which a "
             "network uses if its map_method asks for sorted maps, and by the index of voxels, the library's "
             "default. Before it sorts, the library finds the bounds of the coordinates; this time is ") +
         (bench.facts().is_cpu() ? "included." : "not included.");
}

llvm::Expected<MapStepSamples> time_map_step(StudyBench& bench, const Baseline& baseline,
                                             const StudyCloud& cloud, const LevelSets& levels) {
  MINUET_ASSIGN(const BaselineData room, make_room(bench, baseline, cloud, levels));
  MapStepSamples samples;
  const int warm_up = bench.by_size(1, 1, 5), repeats = bench.by_size(3, 5, 20);
  for (int i = -warm_up; i < repeats; ++i) {
    if (i == 0) {
      const int64_t pairs = samples.pairs;
      samples = {};
      samples.pairs = pairs;
    }
    MINUET_TRY(time_baseline(baseline, room, samples));
  }
  MINUET_ASSIGN(samples.sorted, time_library(bench, cloud, levels, MINUET_MAPS_SORTED, samples.pairs));
  MINUET_ASSIGN(samples.indexed, time_library(bench, cloud, levels, MINUET_MAPS_INDEXED, samples.pairs));
  return samples;
}

}  // namespace minuet::tool
