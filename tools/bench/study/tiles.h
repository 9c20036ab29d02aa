// Finds the best tile of each layer's gather and scatter. A tile is the number of channels that one thread
// moves.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/bench/study/bench.h"

namespace minuet::tool {

struct TileTimes {
  std::string layer;
  /// These map each tried tile that divides the layer's channels to its time in milliseconds.
  std::map<int, double> gather, scatter;
};

/// Times every layer with every tile. Requires a GPU, because gather and scatter on the CPU have no
/// tiles.
llvm::Expected<std::vector<TileTimes>> time_tiles(StudyBench& bench, const std::string& network,
                                                  const StudyCloud& cloud);

/// Returns configurations that use `tile` in every layer whose number of channels is divisible by it.
TuningConfigs fixed_tile(const NetworkSamples& shapes, minuet_dtype dtype, int tile);
/// Returns configurations that use the tile with the least sum of `times` for each kind of layer (number of
/// channels and kernel volume).
TuningConfigs best_tiles(const NetworkSamples& shapes, minuet_dtype dtype,
                         const std::vector<TileTimes>& times);

}  // namespace minuet::tool
