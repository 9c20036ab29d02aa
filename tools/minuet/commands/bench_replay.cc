#include "tools/minuet/commands/bench_replay.h"

#include <algorithm>

#include "tools/minuet/base/error.h"

namespace minuet::tool {

llvm::Expected<ReplayTimes> time_replays(Replay& replay, const BenchCloud& cloud, const Voxelizer& voxelizer,
                                         int unthinned, int warm_up, int timed) {
  ReplayTimes times;
  std::vector<VoxelCloud> known;
  for (int i = 0; i < unthinned; ++i) {
    MINUET_ASSIGN(VoxelCloud voxels, make_variant(cloud, i, /*thin=*/false, voxelizer));
    MINUET_TRY(replay.learn(voxels));
    known.push_back(std::move(voxels));
  }
  for (int i = 0; i < warm_up; ++i) {
    MINUET_ASSIGN(const ReplayResult replayed, replay.infer(known[static_cast<size_t>(i % unthinned)]));
    if (i == 0) times.voxels.unthinned = replayed.voxels;
  }
  for (int i = unthinned; i < unthinned + timed; ++i) {
    MINUET_ASSIGN(const VoxelCloud voxels, make_variant(cloud, i, /*thin=*/true, voxelizer));
    MINUET_ASSIGN(const ReplayResult replayed, replay.infer(voxels));
    times.wall_ms.push_back(replayed.ms);
    times.did_not_fit += replayed.status != 0;
    times.status |= replayed.status;
    const int64_t count = replayed.voxels;
    times.voxels.least = i == unthinned ? count : std::min(times.voxels.least, count);
    times.voxels.greatest = std::max(times.voxels.greatest, count);
  }
  return times;
}

}  // namespace minuet::tool
