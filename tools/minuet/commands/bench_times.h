// Writes the times of a cloud, for all that `minuet bench` times.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/JSON.h"
#include "tools/minuet/cloud/bench_clouds.h"

namespace minuet::tool {

/// Counts the voxels of a cloud.
struct VoxelRange {
  /// `unthinned` counts the voxels of variant 0 (a rotated copy of the cloud with all points). `least` and
  /// `greatest` count those of the smallest and of the largest timed variant.
  int64_t unthinned = 0, least = 0, greatest = 0;
};

/// Returns the JSON fields that each result of a cloud has.
llvm::json::Object times_json(const BenchCloud& cloud, const VoxelRange& voxels,
                              const std::vector<double>& wall_ms);
/// Returns a time as the tables have it.
std::string milliseconds(double time);

}  // namespace minuet::tool
