#include "tools/bench/study/maps.h"

#include <algorithm>

#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

using Axes = std::array<int32_t, 3>;

Axes axes_of(const int32_t* values) {
  return {std::max(values[0], 1), std::max(values[1], 1), std::max(values[2], 1)};
}

/// Returns the stride with which a level is made from the one before it.
Axes step_to(const std::vector<Axes>& strides, size_t level) {
  Axes step = strides[level];
  for (size_t a = 0; a < 3; ++a) step[a] /= strides[level - 1][a];
  return step;
}

llvm::Expected<CoordinatesHandle> create_set(minuet_device* device, const DeviceBuffer& coordinates,
                                             int64_t count) {
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  minuet_coordinates* set = nullptr;
  MINUET_TRY(check(minuet_coordinates_create(device, &options, static_cast<const int32_t*>(coordinates.get()),
                                             count, nullptr, &set)));
  return CoordinatesHandle(set);
}

llvm::Expected<CoordinatesHandle> downsample_set(const CoordinatesHandle& fine, const Axes& stride) {
  const int32_t strides[MINUET_MAX_DIM] = {stride[0], stride[1], stride[2], 1};
  minuet_coordinates* set = nullptr;
  MINUET_TRY(check(minuet_coordinates_downsample(fine.get(), strides, nullptr, &set)));
  return CoordinatesHandle(set);
}

llvm::Expected<MapHandle> create_map(const LevelSets& levels, const MapShape& shape) {
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  std::copy(shape.kernel_size.begin(), shape.kernel_size.end(), options.kernel_size);
  minuet_kernel_map* map = nullptr;
  MINUET_TRY(check(minuet_kernel_map_create(levels.sets[shape.fine].get(), levels.sets[shape.coarse].get(),
                                            &options, nullptr, &map)));
  return MapHandle(map);
}

/// Finds the two levels that a layer connects, by comparing their stride ratio and number of pairs with those
/// of the layer.
llvm::Expected<MapShape> find_map(const LevelSets& levels, const LayerSamples& layer) {
  if (layer.info.offset_count > 0) {
    return bad_input(
        "the kernel of the layer {0} is a cross or a list of {1} offsets, but this study makes kernel "
        "maps of boxes only: choose a network without such layers",
        layer.name, layer.info.offset_count);
  }
  const Axes stride = axes_of(layer.info.stride);
  for (size_t fine = 0; fine < levels.sets.size(); ++fine) {
    Axes reached = levels.strides[fine];
    for (size_t a = 0; a < 3; ++a) reached[a] *= stride[a];
    for (size_t coarse = fine; coarse < levels.sets.size(); ++coarse) {
      if (levels.strides[coarse] != reached) continue;
      const MapShape shape{axes_of(layer.info.kernel_size), fine, coarse};
      MINUET_ASSIGN(const MapHandle map, create_map(levels, shape));
      int64_t pairs = 0;
      MINUET_TRY(check(minuet_kernel_map_query_pairs(map.get(), &pairs)));
      if (pairs == layer.info.pairs) return shape;
    }
  }
  return broken(
      "no kernel map between two levels has the stride and number of pairs that the library reports for the "
      "layer " +
      layer.name);
}

}  // namespace

llvm::Expected<LevelSets> make_levels(const StudyBench& bench, const StudyCloud& cloud,
                                      const NetworkSamples& shapes) {
  const VoxelCloud& voxels = cloud.variants.front();
  LevelSets levels;
  MINUET_ASSIGN(const DeviceBuffer coordinates, upload_coordinates(bench.device(), voxels));
  for (const minuet_level_info& level : shapes.levels) {
    levels.strides.push_back(axes_of(level.tensor_stride));
    CoordinatesHandle set;
    if (levels.sets.empty()) {
      MINUET_ASSIGN(set, create_set(bench.device(), coordinates, voxels.count()));
    } else {
      MINUET_ASSIGN(set, downsample_set(levels.sets.back(), step_to(levels.strides, levels.sets.size())));
    }
    levels.sets.push_back(std::move(set));
  }
  for (const LayerSamples& layer : shapes.layers) {
    if (layer.volume() == 1 && layer.info.offset_count == 0) {
      levels.map_of_layer.push_back(-1);
      continue;
    }
    MINUET_ASSIGN(const MapShape shape, find_map(levels, layer));
    const auto known = std::find(levels.maps.begin(), levels.maps.end(), shape);
    levels.map_of_layer.push_back(static_cast<int>(known - levels.maps.begin()));
    if (known == levels.maps.end()) levels.maps.push_back(shape);
  }
  return levels;
}

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

std::string pooling_network(const LevelSets& levels) {
  llvm::json::Array layers;
  const auto add = [&](const Axes& kernel_size, const Axes& stride) {
    layers.push_back(llvm::json::Object{{"op", "max_pool"},
                                        {"name", llvm::formatv("pool{0}", layers.size()).str()},
                                        {"kernel_size", llvm::json::Array(kernel_size)},
                                        {"stride", llvm::json::Array(stride)}});
  };
  for (size_t level = 0; level < levels.sets.size(); ++level) {
    if (level > 0) {
      const auto leads_here = [&](const MapShape& map) {
        return map.fine + 1 == level && map.coarse == level;
      };
      const auto map = std::find_if(levels.maps.begin(), levels.maps.end(), leads_here);
      add(map == levels.maps.end() ? Axes{1, 1, 1} : map->kernel_size, step_to(levels.strides, level));
    }
    for (const MapShape& map : levels.maps) {
      if (map.fine == level && map.coarse == level) add(map.kernel_size, {1, 1, 1});
    }
  }
  return json_text(llvm::json::Object{{"name", "maps"},
                                      {"ndim", 3},
                                      {"in_channels", 4},
                                      {"channels", llvm::json::Array{4}},
                                      {"layers", std::move(layers)}});
}

llvm::Expected<std::vector<int64_t>> pairs_by_offset(const LevelSets& levels, const MapShape& shape) {
  MINUET_ASSIGN(const MapHandle map, create_map(levels, shape));
  int64_t pairs = 0;
  MINUET_TRY(check(minuet_kernel_map_query_pairs(map.get(), &pairs)));
  std::vector<int32_t> all(static_cast<size_t>(3 * pairs));
  MINUET_TRY(check(minuet_kernel_map_export(map.get(), all.data(), nullptr)));
  std::vector<int64_t> counts(static_cast<size_t>(shape.volume()));
  for (size_t i = 0; i < all.size(); i += 3) ++counts[static_cast<size_t>(all[i])];
  return counts;
}

}  // namespace minuet::tool
