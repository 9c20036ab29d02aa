// The clouds of `minuet bench` and their variants, which show the same scene but never the same voxels.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/readers/cloud.h"

namespace minuet::tool {

struct BenchCloud {
  std::string name;
  std::string origin;                 ///< the file or the generator
  VoxelSize voxel_size = cubic(0.1);  ///< metres
  bool is_missing = false;            ///< true if the file is missing from the data folder
  std::vector<std::string> notes;     ///< sentences for the user about data that were left out
  std::vector<Point> points;          ///< empty means uniform random voxels
  int64_t random_voxels = 0;  ///< number of random voxels in a cube of 400 voxels per edge; 0 means points
};

/// Options for clouds that are files.
struct BenchFiles {
  std::string data;        ///< folder of the named clouds' files
  std::string voxel_size;  ///< for the user's files, as parse_voxel_size() takes it; empty means 0.1
  ColumnOptions columns;   ///< for the user's files
};

/// Returns `flag`, or else MINUET_SHARED/data, or else ../shared/data.
std::string bench_data_folder(const std::string& flag);

/// Reads or generates the clouds in `names`, or all named clouds if `names` is empty. A name is that of a
/// named cloud or a file. A cloud in `names` must exist; otherwise missing clouds are marked.
llvm::Expected<std::vector<BenchCloud>> open_bench_clouds(const std::vector<std::string>& names,
                                                          const BenchFiles& files);

/// Makes variant 0, 1, 2, ... of a cloud: turned about z and, with `thin`, reduced to 95 to 99 % of its
/// points. A variant of random voxels has another seed.
llvm::Expected<VoxelCloud> make_variant(const BenchCloud& cloud, int variant, bool thin);

}  // namespace minuet::tool
