// The data that readers return (points in metres, or voxels) and the voxels that a network takes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/minuet/cloud/readers/scalar.h"

namespace minuet::tool {

/// x, y, z in metres and intensity (0 if the file has none), with exactly the file's values.
using Point = std::array<double, 4>;
using Position = std::array<double, 3>;
/// The edges of a voxel along x, y and z, in metres.
using VoxelSize = std::array<double, 3>;
constexpr VoxelSize cubic(double edge) { return {edge, edge, edge}; }

/// A number that every point of a file has in addition to x, y and z, for example the intensity.
struct Attribute {
  std::string name;
  Scalar type = Scalar::F32;
  std::string values;  ///< packed, in this machine's byte order
};

/// Either points, or int32 voxel coordinates [count, 1 + ndim], batch first.
struct Cloud {
  bool is_voxels = false;
  std::vector<Point> points;
  /// The types in which the file stores x, y and z. Integers and text count as F64.
  std::array<Scalar, 3> position_types = {Scalar::F64, Scalar::F64, Scalar::F64};
  std::vector<Attribute> attributes;  ///< attributes of the points
  std::vector<std::string> lists;     ///< names of list properties of the points, which are not kept
  std::vector<std::string> elements;  ///< names of a PLY file's other elements
  std::vector<std::string> comments;  ///< "comment ..." and "obj_info ..." lines of a PLY file
  std::vector<std::string> warnings;  ///< sentences for the user about data that were not read
  /// A sentence for the user if points have further numbers but none is the intensity; otherwise empty.
  std::string no_intensity;
  std::string columns;  ///< "x y z <- columns 0 1 2, intensity <- column 3"; empty without a file
  int ndim = 3;
  std::vector<int32_t> voxels;

  bool has_double_positions() const {
    return std::find(position_types.begin(), position_types.end(), Scalar::F64) != position_types.end();
  }
  int64_t count() const {
    return is_voxels ? static_cast<int64_t>(voxels.size()) / (1 + ndim) : static_cast<int64_t>(points.size());
  }
};

/// The input of a network: voxels with a row of features for each.
struct VoxelCloud {
  int ndim = 3;
  int channels = 4;
  std::vector<int32_t> coordinates;   ///< [count, 1 + ndim], batch first
  std::vector<float> features;        ///< [count, channels]
  std::vector<int64_t> row_of_point;  ///< for each input point; -1 if it was dropped
  int64_t points = 0;                 ///< input points
  int64_t skipped = 0;                ///< invalid points dropped

  int64_t count() const { return static_cast<int64_t>(coordinates.size()) / (1 + ndim); }
};

}  // namespace minuet::tool
