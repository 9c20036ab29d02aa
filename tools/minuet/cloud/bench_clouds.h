// The clouds of `minuet bench`, and their variants: the same scene, never the same voxels twice.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/readers/cloud.h"

namespace minuet::tool {

struct BenchCloud {
  std::string name;
  std::string origin;                 ///< a file, or what generates it
  VoxelSize voxel_size = cubic(0.1);  ///< metres
  bool is_missing = false;            ///< one of the data folder, which is not there
  std::vector<std::string> notes;     ///< sentences for the user about what is left out
  std::vector<Point> points;          ///< empty: uniform random voxels
  int64_t random_voxels = 0;          ///< that many, in a cube of 400 voxels an edge
};

/// Where clouds come from that are files.
struct BenchFiles {
  std::string data;        ///< the folder of the known ones
  std::string voxel_size;  ///< metres, of the user's own, as parse_voxel_size takes it; empty: 0.1
  ColumnOptions columns;   ///< of the user's own
};

/// --data, else MINUET_SHARED/data, else ../shared/data.
std::string bench_data_folder(const std::string& flag);

/// Those that --cloud names, or all that are known: read or generated. A name is a known one's or a file's,
/// and what is named has to be there.
llvm::Expected<std::vector<BenchCloud>> open_bench_clouds(const std::vector<std::string>& names,
                                                          const BenchFiles& files);

/// Variant 0, 1, 2...: turned about z, and with `thin` left with 95 to 99 % of its points. Of a random
/// cloud: another seed.
llvm::Expected<VoxelCloud> make_variant(const BenchCloud& cloud, int variant, bool thin);

}  // namespace minuet::tool
