// The clouds of `minuet bench`, and their variants: the same scene, never the same voxels twice.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud.h"

namespace minuet::tool {

struct BenchCloud {
  std::string name;
  std::string origin;         ///< a file of the data folder, or what generates it
  float voxel_size = 0.1f;    ///< metres
  std::vector<Point> points;  ///< empty: uniform random voxels
  int64_t random_voxels = 0;  ///< that many, in a cube of 400 voxels an edge
};

/// All names that --cloud takes, in the order in which they are measured.
std::vector<std::string> bench_cloud_names();
/// An error that lists the names where `name` is none of them.
llvm::Error check_bench_cloud(const std::string& name);

/// Reads or generates a cloud. `data`: the folder of the real ones. A real one whose file is not there
/// comes back with neither points nor random_voxels.
llvm::Expected<BenchCloud> open_bench_cloud(const std::string& name, const std::string& data);

/// Variant 0, 1, 2...: turned about z, and with `thin` left with 95 to 99 % of its points. Of a random
/// cloud: another seed.
llvm::Expected<VoxelCloud> make_variant(const BenchCloud& cloud, int variant, bool thin);

}  // namespace minuet::tool
