// From what the command line names to what a network takes.
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

/// Exactly one of cloud, coordinates and synthetic is set.
struct InputOptions {
  std::string cloud;        ///< a file
  std::string coordinates;  ///< an NPY file of voxels
  std::string features;     ///< an NPY file, beside coordinates; empty: from the voxels' centres
  std::string synthetic;    ///< lidar, room, object, random
  int64_t points = 0;       ///< of a synthetic cloud; 0: the kind's default
  double extent = 0;        ///< metres; 0: the kind's default
  uint64_t seed = 1;
  ColumnOptions columns;
  std::string voxel_size = "0.1";  ///< metres, as written: one number, or x, y and z by commas
  std::optional<Position> origin;  ///< metres; else chosen where one is needed
  bool skip_invalid = false;
};

struct Input {
  Cloud cloud;  ///< what was read
  VoxelCloud voxels;
  Frame frame;
  double voxelize_ms = 0;  ///< 0 where the voxels came as such

  /// Voxels to add to the network's coordinates so that they count from 0 and not from the frame's origin;
  /// nothing where that is no whole number of voxels.
  std::optional<std::array<int64_t, 3>> shift() const;
};

/// Reads, generates and voxelises. Checks the voxels against the network's ndim and input channels.
llvm::Expected<Input> load_input(const InputOptions& options, const minuet_plan_info& network);

/// --voxel-size, in metres: one number for all axes, or three by commas.
llvm::Expected<VoxelSize> parse_voxel_size(const std::string& text);

/// Writes the cloud's warnings to stderr, a line each.
void print_warnings(const Cloud& cloud);

/// Points of a generated cloud.
llvm::Expected<std::vector<Point>> synthetic_points(const InputOptions& options);

/// The features in `dtype`; a number that the type cannot hold is an error.
llvm::Expected<std::vector<char>> encode_features(const VoxelCloud& voxels, minuet_dtype dtype);

}  // namespace minuet::tool
