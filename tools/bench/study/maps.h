// Creates a network's coordinate sets and kernel maps one by one through the C ABI.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tools/bench/study/bench.h"

namespace minuet::tool {

/// Identifies a kernel map of a network. A transposed layer uses the map of the strided layer that it
/// reverses.
struct MapShape {
  std::array<int32_t, 3> kernel_size;
  size_t fine = 0, coarse = 0;  ///< These are indices of levels. They are equal in a submanifold map.
  int64_t volume() const { return int64_t{kernel_size[0]} * kernel_size[1] * kernel_size[2]; }
  bool operator==(const MapShape&) const = default;
};

/// Holds the coordinate sets of the levels of one network over one cloud, and the maps that its layers use.
struct LevelSets {
  std::vector<CoordinatesHandle> sets;
  std::vector<std::array<int32_t, 3>> strides;  ///< Has the tensor stride of each level.
  std::vector<MapShape> maps;                   ///< Lists the distinct maps with more than one offset.
  /// Has the index in `maps` of each layer's map, or -1 if the layer's kernel has only one offset.
  std::vector<int> map_of_layer;
};

llvm::Expected<CoordinatesHandle> create_set(minuet_device* device, const DeviceBuffer& coordinates,
                                             int64_t count, minuet_queue* queue = nullptr);
llvm::Expected<CoordinatesHandle> downsample_set(const CoordinatesHandle& fine,
                                                 const std::array<int32_t, 3>& stride);
llvm::Expected<MapHandle> create_map(const LevelSets& levels, const MapShape& shape);

/// Makes a network's coordinate sets and finds its kernel maps. `shapes` must come from a run of the network
/// over the cloud's first variant.
llvm::Expected<LevelSets> make_levels(const StudyBench& bench, const StudyCloud& cloud,
                                      const NetworkSamples& shapes);

/// Returns the number of pairs of each offset of the map.
llvm::Expected<std::vector<int64_t>> pairs_by_offset(const LevelSets& levels, const MapShape& shape);

}  // namespace minuet::tool
