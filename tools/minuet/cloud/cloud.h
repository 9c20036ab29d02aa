// Defines the data that readers return, which are points in metres or voxels, and the voxels that a network
// takes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/minuet/cloud/readers/scalar.h"

namespace minuet::tool {

/// Holds x, y and z in metres and the intensity, which is 0 if the file has none. The values are exactly
/// those of the file, except that 64-bit integers are rounded.
using Point = std::array<double, 4>;
using Position = std::array<double, 3>;
/// Holds the edges of a voxel along x, y and z, in metres.
using VoxelSize = std::array<double, 3>;
constexpr VoxelSize cubic(double edge) { return {edge, edge, edge}; }

/// Describes a number that every point of a file has in addition to x, y and z, for example the intensity.
struct Attribute {
  std::string name;
  Scalar type = Scalar::F32;
  std::string values;  ///< Holds the packed numbers of all points, in this machine's byte order.
};

/// Holds either points, or voxels as int32 coordinates [count, 1 + ndim] with the batch index in the first
/// column.
struct Cloud {
  bool is_voxels = false;
  std::vector<Point> points;
  /// Holds the types in which the file stores x, y and z. All types other than F16 and F32 count as F64.
  std::array<Scalar, 3> position_types = {Scalar::F64, Scalar::F64, Scalar::F64};
  std::vector<Attribute> attributes;
  /// Names the list properties of a PLY file's points, whose values are not kept.
  std::vector<std::string> lists;
  std::vector<std::string> elements;  ///< Names the elements of a PLY file other than the points.
  /// Holds the lines of a PLY header that begin with "comment" or "obj_info".
  std::vector<std::string> comments;
  std::vector<std::string> warnings;  ///< Holds sentences for the user about data that were not read.
  /// Holds a sentence for the user if the points have further numbers but none of them is the intensity.
  /// Otherwise it is empty.
  std::string no_intensity;
  /// Says where the numbers come from, for example "x y z <- columns 0 1 2, intensity <- column 3". It is
  /// empty for voxels and for generated clouds.
  std::string columns;
  int ndim = 3;
  std::vector<int32_t> voxels;

  bool has_double_positions() const {
    return std::find(position_types.begin(), position_types.end(), Scalar::F64) != position_types.end();
  }
  int64_t count() const {
    return is_voxels ? static_cast<int64_t>(voxels.size()) / (1 + ndim) : static_cast<int64_t>(points.size());
  }
};

/// Holds the input of a network, which is a list of voxels, or of points, with a row of features for each of
/// them.
struct VoxelCloud {
  int ndim = 3;
  int channels = 4;
  /// Says whether the rows are points (point_input.h), for a network that makes voxels of them itself. Points
  /// have no coordinates, because their features begin with their positions.
  bool holds_points = false;
  /// Holds an array [count, 1 + ndim] with the batch index in the first column.
  std::vector<int32_t> coordinates;
  std::vector<float> features;  ///< Holds an array [count, channels].
  /// Maps each input point to the row of its voxel, or to its own row, or to -1 if the point was dropped. It
  /// is empty if the input was voxels.
  std::vector<int64_t> row_of_point;
  int64_t points = 0;   ///< Counts the points of the input, or its voxels if the input was voxels.
  int64_t skipped = 0;  ///< Counts the invalid points that were dropped.
  // The following counts are 0 unless the points were voxelized in a grid (grid.h).
  int64_t outside = 0;  ///< Counts the points outside the grid, which were dropped.
  /// Counts the points that do not count for the features, because their voxel has as many as are allowed.
  int64_t past_points = 0;
  /// Counts the points that were dropped because there are as many voxels as are allowed.
  int64_t past_voxels = 0;
  double load_ms = 0;  ///< Holds the time in which the kernels that made the voxels were compiled or loaded.

  int64_t count() const {
    if (holds_points) return static_cast<int64_t>(features.size()) / channels;
    return static_cast<int64_t>(coordinates.size()) / (1 + ndim);
  }
};

}  // namespace minuet::tool
