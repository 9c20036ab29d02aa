// Makes the input of a network from the cloud that the command line names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "minuet/minuet.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/frame.h"
#include "tools/minuet/cloud/grid.h"
#include "tools/minuet/cloud/point_input.h"
#include "tools/minuet/cloud/readers/cloud.h"
#include "tools/minuet/cloud/voxelize.h"

namespace minuet::tool {

/// Holds the values of the flags about the input. Exactly one of cloud, coordinates and synthetic is set.
struct InputOptions {
  std::string cloud;        ///< Names a point-cloud file.
  std::string coordinates;  ///< Names an NPY file of voxels.
  /// Names an NPY file of features for `coordinates`. An empty name means that the voxels' centres are the
  /// features.
  std::string features;
  std::string synthetic;  ///< Names a kind of generated cloud: lidar, room, object or random.
  /// Counts the points of a generated cloud. The value 0 means the default of its kind.
  int64_t points = 0;
  /// Holds the size of a generated cloud in metres. The value 0 means the default of its kind.
  double extent = 0;
  uint64_t seed = 1;
  ColumnOptions columns;
  /// Holds one number in metres, or three for x, y and z, separated by commas. An empty string means 0.1 m,
  /// or the voxel size of the network's grid.
  std::string voxel_size;
  /// Holds the range of the grid as parse_range() takes it. An empty string means that of the network, if
  /// any.
  std::string range;
  /// Holds the grid in which voxels are counted. If it is not set, they are counted from the origin.
  std::optional<Grid> grid;
  /// Describes the voxels that the network makes itself, if it takes points. There is no grid then.
  std::optional<OwnVoxels> own_voxels;
  VoxelLimits limits;  ///< Limits apply only to points in a grid.
  /// Holds the origin in metres. If it is not set, choose_frame() chooses one.
  std::optional<Position> origin;
  /// Holds the point, relative to the origin, from which voxels of points are counted if there is no grid.
  Position low = {};
  bool skip_invalid = false;
};

/// Holds the input of an inference, and the cloud from which it was made.
struct Input {
  Cloud cloud;  ///< Holds the cloud as it was read or generated.
  VoxelCloud voxels;
  Frame frame;
  std::optional<Grid> grid;  ///< Is set if the voxels are those of a grid.
  Position low = {};  ///< Holds the point from which voxels of points are counted, relative to the origin.
  /// Holds the time of the voxelization, without that of compiling or loading its kernels. It is 0 if the
  /// network makes the voxels itself, or if the input was voxels.
  double voxelize_ms = 0;

  /// Returns the position of the corner of voxel 0.
  Position corner() const;
  /// Returns how many voxels to add on each axis to the network's coordinates, so that they are relative to 0
  /// instead of frame.origin. In a grid this is 0, because voxels are counted from its corner. Returns
  /// nothing if frame.origin is not a whole number of voxels.
  std::optional<std::array<int64_t, 3>> shift() const;
};

/// Reads or generates the cloud and voxelizes it. Returns an error if the voxels do not fit the network's
/// ndim and input channels.
llvm::Expected<Input> load_input(const InputOptions& options, const minuet_plan_info& network,
                                 const Voxelizer& voxelizer);

/// Reads an .npy file of features, a float or integer array [rows, columns], and sets `rows` and `columns`.
/// Returns an error if a feature is not a finite float32 number.
llvm::Expected<std::vector<float>> read_features(const std::string& path, int64_t& rows, int64_t& columns);

/// Parses the value of --voxel-size, which is one number for all axes, or three numbers separated by commas.
/// An empty text means 0.1 m.
llvm::Expected<VoxelSize> parse_voxel_size(const std::string& text);

/// Writes the cloud's `warnings` and `no_intensity` to stderr, one per line.
void print_warnings(const Cloud& cloud);

/// Generates a cloud of the kind that options.synthetic names.
llvm::Expected<std::vector<Point>> synthetic_points(const InputOptions& options);

/// Encodes the features in `dtype`. Returns an error if a feature is beyond the range of the type.
llvm::Expected<std::vector<char>> encode_features(const VoxelCloud& voxels, minuet_dtype dtype);

}  // namespace minuet::tool
