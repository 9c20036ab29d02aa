// Provides the clouds of `minuet bench` and their variants, which show the same scene but never the same
// voxels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/grid.h"
#include "tools/minuet/cloud/point_input.h"
#include "tools/minuet/cloud/readers/cloud.h"
#include "tools/minuet/cloud/voxelize.h"

namespace minuet::tool {

struct BenchCloud {
  std::string name;
  std::string origin;                 ///< Names the file or the generator from which the cloud comes.
  VoxelSize voxel_size = cubic(0.1);  ///< Holds the edges of a voxel in metres.
  bool is_missing = false;            ///< Tells whether the file is missing from the data folder.
  std::vector<std::string> notes;     ///< Holds sentences for the user about data that were left out.
  std::vector<Point> points;          ///< This list is empty for a cloud of random voxels.
  /// Counts the random voxels in a cube of 400 voxels per edge. The value 0 means a cloud of points.
  int64_t random_voxels = 0;
  /// Holds the grid in which voxels are counted. If it is not set, they are counted from 0.
  std::optional<Grid> grid;
  /// Says that a variant holds points, for a network that makes these voxels of them itself.
  std::optional<OwnVoxels> own_voxels;
  /// Counts the features of a voxel, of which those after the fourth are 0, or the columns of a point.
  int channels = 4;
};

/// Holds the values of the flags for clouds that are files.
struct BenchFiles {
  std::string data;  ///< Names the folder with the files of the known clouds.
  /// Gives the voxel size for the user's files, as parse_voxel_size() takes it. An empty string means 0.1 m.
  std::string voxel_size;
  ColumnOptions columns;   ///< These options apply to the user's files.
  bool has_range = false;  ///< Tells whether --range is given, to whose grid --voxel-size then applies too.
};

/// Returns `flag` if it is not empty. Otherwise returns the folder `data` in the folder that the environment
/// variable MINUET_SHARED names, or ../shared/data if that variable is not set.
std::string bench_data_folder(const std::string& flag);

/// Reads or generates the clouds in `names`. A name is a file or one of the known clouds in the table of
/// bench_clouds.cc. If `names` is empty, returns all known clouds and sets is_missing for those whose file
/// does not exist. Returns an error if `names` has a cloud whose file does not exist.
llvm::Expected<std::vector<BenchCloud>> open_bench_clouds(const std::vector<std::string>& names,
                                                          const BenchFiles& files);

/// Makes the voxels of variant 0, 1, 2, ... of a cloud. A variant has the points of the cloud, turned about
/// z. With `thin`, it keeps only 95 to 99 % of them. A variant of random voxels has a different seed instead.
///
/// In a grid, points outside are dropped. Random voxels lie in the part of their cube, moved to the corner of
/// the grid, that the grid has. For a network that takes points, a variant holds points, and random voxels
/// become a point at the centre of each.
llvm::Expected<VoxelCloud> make_variant(const BenchCloud& cloud, int variant, bool thin,
                                        const Voxelizer& voxelizer);

/// Makes the voxels, or the points, of a cloud as it is.
llvm::Expected<VoxelCloud> make_unturned(const BenchCloud& cloud, const Voxelizer& voxelizer);

/// Returns the clouds for a network with this grid, if it has one, and this number of input channels. `own`
/// is set for a network that takes points.
std::vector<BenchCloud> clouds_in(const std::vector<BenchCloud>& clouds, const std::optional<Grid>& grid,
                                  int channels, const std::optional<OwnVoxels>& own = std::nullopt);

}  // namespace minuet::tool
