// `minuet bench --replay` times whole inferences in capacity mode, in which a cloud must fit fixed
// capacities.
#pragma once

#include <vector>

#include "tools/minuet/commands/bench_times.h"
#include "tools/minuet/library/replay.h"

namespace minuet::tool {

struct ReplayTimes {
  std::vector<double> wall_ms;
  VoxelRange voxels;
  /// Counts the timed variants that had too many voxels for a level of the network or exceeded a bound of the
  /// coordinates.
  int did_not_fit = 0;
  uint32_t status = 0;  ///< Combines the bits MINUET_CLOUD_* of all timed variants.
};

/// Derives the capacities of the network's levels and the bounds of the coordinates from the first
/// `unthinned` variants of the cloud, warms up with them, and then times `timed` further variants.
llvm::Expected<ReplayTimes> time_replays(Replay& replay, const BenchCloud& cloud, const Voxelizer& voxelizer,
                                         int unthinned, int warm_up, int timed);

}  // namespace minuet::tool
