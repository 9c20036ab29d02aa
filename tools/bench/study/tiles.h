// Finds the best tile of each layer's gather and scatter.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/bench/study/bench.h"

namespace minuet::tool {

struct TileTimes {
  std::string layer;
  std::map<int, double> gather, scatter;  ///< ms by tile, for the tried tiles that divide the channels
};

/// Times every layer with every tile. Requires a GPU: gather and scatter on the CPU have no tiles.
llvm::Expected<std::vector<TileTimes>> time_tiles(StudyBench& bench, const std::string& network,
                                                  const StudyCloud& cloud);

/// Forces this tile in every layer whose channels it divides.
TuningConfigs fixed_tile(const NetworkSamples& shapes, minuet_dtype dtype, int tile);
/// Forces the fastest tile for each kind of layer.
TuningConfigs best_tiles(const NetworkSamples& shapes, minuet_dtype dtype,
                         const std::vector<TileTimes>& times);

}  // namespace minuet::tool
