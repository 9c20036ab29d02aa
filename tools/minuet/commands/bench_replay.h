// `minuet bench --replay`: whole inferences in capacity mode.
#pragma once

#include <vector>

#include "tools/minuet/cloud/bench_clouds.h"
#include "tools/minuet/library/replay.h"

namespace minuet::tool {

struct ReplayTimes {
  std::vector<double> wall_ms;
  int64_t unthinned = 0, least = 0, greatest = 0;  ///< voxels: of variant 0, and of the timed ones
  int did_not_fit = 0;                             ///< of the timed ones
  uint32_t status = 0;                             ///< why, all together
};

/// Capacities and bounds come of the `unthinned` first variants, which the warm-up sees, too; then `timed`
/// others.
llvm::Expected<ReplayTimes> time_replays(Replay& replay, const BenchCloud& cloud, int unthinned, int warm_up,
                                         int timed);

}  // namespace minuet::tool
