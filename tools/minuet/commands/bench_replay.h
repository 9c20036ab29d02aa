// `minuet bench --replay` times whole inferences in capacity mode.
#pragma once

#include <vector>

#include "tools/minuet/cloud/bench_clouds.h"
#include "tools/minuet/library/replay.h"

namespace minuet::tool {

struct ReplayTimes {
  std::vector<double> wall_ms;
  int64_t unthinned = 0, least = 0, greatest = 0;  ///< voxels of variant 0; fewest, most of a timed variant
  int did_not_fit = 0;                             ///< timed variants that exceeded a capacity
  uint32_t status = 0;                             ///< status bits of all timed variants, combined
};

/// Derives capacities and bounds from the first `unthinned` variants, warms up with the same variants, and
/// then times `timed` further variants.
llvm::Expected<ReplayTimes> time_replays(Replay& replay, const BenchCloud& cloud, int unthinned, int warm_up,
                                         int timed);

}  // namespace minuet::tool
