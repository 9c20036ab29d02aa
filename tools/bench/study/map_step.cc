#include "tools/bench/study/map_step.h"

#include "tools/bench/study/studies.h"
#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

struct QueueRelease {
  void operator()(minuet_queue* queue) const { minuet_queue_destroy(queue); }
};

std::vector<double> sums_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> sums(a);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += b[i];
  return sums;
}

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

class MapTimer {
 public:
  MapTimer(const StudyBench& bench, const Baseline& baseline, const LevelSets& levels, BaselineData room,
           DeviceBuffer coordinates, std::unique_ptr<minuet_queue, QueueRelease> queue)
      : bench_(bench),
        baseline_(baseline),
        levels_(levels),
        room_(std::move(room)),
        coordinates_(std::move(coordinates)),
        queue_(std::move(queue)) {}

  llvm::Error time_baseline(MapStepSamples& samples) {
    const auto build = [&]() -> llvm::Error {
      for (const BaselineLevel& level : room_.levels) MINUET_TRY(baseline_.build(level));
      return llvm::Error::success();
    };
    MINUET_TRY(time(samples.hash_build, build));
    for (const bool by_hash : {true, false}) {
      const auto query = [&]() -> llvm::Error {
        for (const BaselineMap& map : room_.maps) {
          const BaselineLevel &sources = room_.levels[map.sources], &queries = room_.levels[map.queries];
          MINUET_TRY(baseline_.query(map, sources, queries, by_hash));
        }
        return llvm::Error::success();
      };
      MINUET_TRY(time(by_hash ? samples.hash_query : samples.binary_query, query));
      MINUET_ASSIGN(const int64_t found, all_pairs());
      if (samples.pairs == 0) samples.pairs = found;
      if (samples.pairs != found) return differ(samples.pairs, found);
    }
    return llvm::Error::success();
  }

  llvm::Error time_library(MapStepSamples& samples) {
    LevelSets made;
    made.strides = levels_.strides;
    const auto build = [&]() -> llvm::Error {
      MINUET_ASSIGN(CoordinatesHandle first,
                    create_set(bench_.device(), coordinates_, room_.levels.front().count, queue_.get()));
      made.sets.push_back(std::move(first));
      for (size_t i = 1; i < levels_.sets.size(); ++i) {
        std::array<int32_t, 3> step = levels_.strides[i];
        for (size_t a = 0; a < 3; ++a) step[a] /= levels_.strides[i - 1][a];
        MINUET_ASSIGN(CoordinatesHandle coarse, downsample_set(made.sets.back(), step));
        made.sets.push_back(std::move(coarse));
      }
      return llvm::Error::success();
    };
    MINUET_TRY(time(samples.library_build, build));
    std::vector<MapHandle> maps;
    const auto query = [&]() -> llvm::Error {
      for (const MapShape& shape : levels_.maps) {
        MINUET_ASSIGN(MapHandle map, create_map(made, shape));
        maps.push_back(std::move(map));
      }
      return llvm::Error::success();
    };
    MINUET_TRY(time(samples.library_query, query));
    int64_t found = 0;
    for (const MapHandle& map : maps) {
      int64_t pairs = 0;
      MINUET_TRY(check(minuet_kernel_map_query_pairs(map.get(), &pairs)));
      found += pairs;
    }
    return found == samples.pairs ? llvm::Error::success() : differ(samples.pairs, found);
  }

 private:
  static llvm::Error differ(int64_t one, int64_t other) {
    return broken(
        llvm::formatv("two searches of the same map find different numbers of pairs, {0} and {1}", one, other)
            .str());
  }

  template <class Work>
  llvm::Error time(std::vector<double>& samples, const Work& work) {
    const Clock::time_point start = Clock::now();
    MINUET_TRY(work());
    MINUET_TRY(check(minuet_device_synchronize(bench_.device(), nullptr)));
    samples.push_back(milliseconds_since(start));
    return llvm::Error::success();
  }

  llvm::Expected<int64_t> all_pairs() const {
    int64_t sum = 0;
    for (const BaselineMap& map : room_.maps) {
      MINUET_ASSIGN(const int64_t pairs, baseline_.pairs(map));
      sum += pairs;
    }
    return sum;
  }

  const StudyBench& bench_;
  const Baseline& baseline_;
  const LevelSets& levels_;
  BaselineData room_;
  DeviceBuffer coordinates_;
  std::unique_ptr<minuet_queue, QueueRelease> queue_;
};

}  // namespace

std::vector<double> MapStepSamples::hash() const { return sums_of(hash_build, hash_query); }
std::vector<double> MapStepSamples::binary() const { return sums_of(library_build, binary_query); }
std::vector<double> MapStepSamples::library() const { return sums_of(library_build, library_query); }

llvm::Expected<LevelSets> one_map(const StudyBench& bench, const StudyCloud& cloud) {
  const VoxelCloud& voxels = cloud.variants.front();
  MINUET_ASSIGN(const DeviceBuffer coordinates, upload_coordinates(bench.device(), voxels));
  LevelSets levels;
  MINUET_ASSIGN(CoordinatesHandle set, create_set(bench.device(), coordinates, voxels.count()));
  levels.sets.push_back(std::move(set));
  levels.strides.push_back({1, 1, 1});
  levels.maps.push_back({{3, 3, 3}, 0, 0});
  return levels;
}

llvm::Expected<MapStepSamples> time_map_step(StudyBench& bench, const Baseline& baseline,
                                             const StudyCloud& cloud, const LevelSets& levels) {
  const VoxelCloud& voxels = cloud.variants.front();
  MINUET_ASSIGN(DeviceBuffer coordinates, upload_coordinates(bench.device(), voxels));
  MINUET_ASSIGN(BaselineData room, make_room(bench, baseline, cloud, levels));
  minuet_queue* queue = nullptr;
  MINUET_TRY(check(minuet_queue_create(bench.device(), nullptr, &queue)));
  MapTimer timer(bench, baseline, levels, std::move(room), std::move(coordinates),
                 std::unique_ptr<minuet_queue, QueueRelease>(queue));
  MapStepSamples samples;
  const int warm_up = bench.by_size(1, 1, 5), repeats = bench.by_size(3, 5, 20);
  for (int i = -warm_up; i < repeats; ++i) {
    if (i == 0) {
      const int64_t pairs = samples.pairs;
      samples = {};
      samples.pairs = pairs;
    }
    MINUET_TRY(timer.time_baseline(samples));
    MINUET_TRY(timer.time_library(samples));
  }
  return samples;
}

}  // namespace minuet::tool
