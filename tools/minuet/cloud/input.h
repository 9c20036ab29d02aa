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
#include "tools/minuet/cloud/readers/cloud.h"

namespace minuet::tool {

/// The values of the flags about the input. Exactly one of cloud, coordinates and synthetic is set.
struct InputOptions {
  std::string cloud;        ///< a file
  std::string coordinates;  ///< an NPY file of voxels
  std::string features;     ///< an NPY file for `coordinates`; empty means the voxels' centres
  std::string synthetic;    ///< lidar, room, object or random
  int64_t points = 0;       ///< of a synthetic cloud; 0 means the kind's default
  double extent = 0;        ///< metres; 0 means the kind's default
  uint64_t seed = 1;
  ColumnOptions columns;
  std::string voxel_size = "0.1";  ///< metres: one number, or x, y and z separated by commas
  std::optional<Position> origin;  ///< metres; if not set, chosen when needed
  bool skip_invalid = false;
};

/// The input of an inference.
struct Input {
  Cloud cloud;  ///< as read or generated
  VoxelCloud voxels;
  Frame frame;
  double voxelize_ms = 0;  ///< 0 if the input was voxels

  /// Returns the voxels to add to the network's coordinates to make them relative to 0 instead of the frame's
  /// origin. Returns nothing if that is not a whole number of voxels.
  std::optional<std::array<int64_t, 3>> shift() const;
};

/// Reads or generates the cloud and voxelizes it. Checks the voxels against the network's ndim and input
/// channels.
llvm::Expected<Input> load_input(const InputOptions& options, const minuet_plan_info& network);

/// Parses the value of --voxel-size: one number for all axes, or three separated by commas.
llvm::Expected<VoxelSize> parse_voxel_size(const std::string& text);

/// Writes the cloud's warnings to stderr, one per line.
void print_warnings(const Cloud& cloud);

/// Generates the points of options.synthetic.
llvm::Expected<std::vector<Point>> synthetic_points(const InputOptions& options);

/// Encodes the features in `dtype`. A value beyond the range of the type is an error.
llvm::Expected<std::vector<char>> encode_features(const VoxelCloud& voxels, minuet_dtype dtype);

}  // namespace minuet::tool
