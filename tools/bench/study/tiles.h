// The best tile of each layer's gather and scatter.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/bench/study/bench.h"

namespace minuet::tool {

struct TileTimes {
  std::string layer;
  std::map<int, double> gather, scatter;  ///< ms by tile: all that divide the channels and were tried
};

/// Every layer by every tile. A GPU's: the CPU's gather and scatter have none.
llvm::Expected<std::vector<TileTimes>> time_tiles(StudyBench& bench, const std::string& network,
                                                  const StudyCloud& cloud);

/// Every layer of the network by this tile, where it divides the channels.
TuningConfigs fixed_tile(const NetworkSamples& shapes, minuet_dtype dtype, int tile);
/// The fastest tile of each kind of layer.
TuningConfigs best_tiles(const NetworkSamples& shapes, minuet_dtype dtype,
                         const std::vector<TileTimes>& times);

}  // namespace minuet::tool
