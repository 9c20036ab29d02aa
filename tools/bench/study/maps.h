// A network's coordinate sets and kernel maps by themselves, through the ABI's single operations.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tools/bench/study/bench.h"

namespace minuet::tool {

/// A kernel map of a network; maps of transposed layers are those of the layers that they go back by.
struct MapShape {
  std::array<int32_t, 3> kernel_size;
  size_t fine = 0, coarse = 0;  ///< levels; the same of a submanifold map
  int64_t volume() const { return int64_t{kernel_size[0]} * kernel_size[1] * kernel_size[2]; }
  bool operator==(const MapShape&) const = default;
};

/// Of one network and cloud: the coordinate sets of its levels, and which maps its layers use.
struct LevelSets {
  std::vector<CoordinatesHandle> sets;
  std::vector<std::array<int32_t, 3>> strides;  ///< tensor strides
  std::vector<MapShape> maps;                   ///< each once; those of one offset are left out
  std::vector<int> map_of_layer;                ///< -1: of one offset
};

llvm::Expected<CoordinatesHandle> create_set(minuet_device* device, const DeviceBuffer& coordinates,
                                             int64_t count, minuet_queue* queue = nullptr);
llvm::Expected<CoordinatesHandle> downsample_set(const CoordinatesHandle& fine,
                                                 const std::array<int32_t, 3>& stride);
llvm::Expected<MapHandle> create_map(const LevelSets& levels, const MapShape& shape);

/// `shapes`: of the network over the cloud's first variant.
llvm::Expected<LevelSets> make_levels(const StudyBench& bench, const StudyCloud& cloud,
                                      const NetworkSamples& shapes);

/// Pairs of each offset.
llvm::Expected<std::vector<int64_t>> pairs_by_offset(const LevelSets& levels, const MapShape& shape);

}  // namespace minuet::tool
