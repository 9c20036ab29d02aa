// Finds out which coordinate sets and kernel maps a network has, and describes a network that makes them and
// does little else.
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

/// Makes a network's coordinate sets and finds its kernel maps. `shapes` must come from a run of the network
/// over the cloud's first variant.
llvm::Expected<LevelSets> make_levels(const StudyBench& bench, const StudyCloud& cloud,
                                      const NetworkSamples& shapes);

/// Returns one level with one submanifold kernel map of kernel size 3.
llvm::Expected<LevelSets> one_map(const StudyBench& bench, const StudyCloud& cloud);

/// Describes as JSON a network that makes these sets and maps. Its layers are poolings, because these read
/// the rows that the search finds: unlike a convolution's, their Map step ends with the search and the
/// numbers of pairs, and makes no tables and no orders of rows.
std::string pooling_network(const LevelSets& levels);

/// Returns the number of pairs of each offset of the map.
llvm::Expected<std::vector<int64_t>> pairs_by_offset(const LevelSets& levels, const MapShape& shape);

}  // namespace minuet::tool
