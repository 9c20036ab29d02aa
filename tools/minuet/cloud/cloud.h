// What a reader hands on: points in metres, or voxels that somebody else made.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/minuet/cloud/readers/scalar.h"

namespace minuet::tool {

/// x, y, z in metres and intensity (0 where the file has none), exactly as the file has them.
using Point = std::array<double, 4>;
using Position = std::array<double, 3>;
/// The edges of a voxel along x, y and z, in metres.
using VoxelSize = std::array<double, 3>;
constexpr VoxelSize cubic(double edge) { return {edge, edge, edge}; }

/// A number that every point of a file has beside x, y and z; its intensity too.
struct Attribute {
  std::string name;
  Scalar type = Scalar::F32;
  std::string values;  ///< packed, in this machine's byte order
};

/// Either points, or int32 voxel coordinates [count, 1 + ndim], batch first.
struct Cloud {
  bool is_voxels = false;
  std::vector<Point> points;
  /// What x, y and z were stored in; integers and text count as F64.
  std::array<Scalar, 3> position_types = {Scalar::F64, Scalar::F64, Scalar::F64};
  std::vector<Attribute> attributes;  ///< of the points
  std::vector<std::string> lists;     ///< names of what the points have and we do not keep
  std::vector<std::string> elements;  ///< of a PLY file: names of what it has beside its points
  std::vector<std::string> comments;  ///< of a PLY file: "comment ..." and "obj_info ..."
  std::vector<std::string> warnings;  ///< sentences for the user about what was not read
  /// A sentence for the user where points have further numbers and none is the intensity; else empty.
  std::string no_intensity;
  std::string columns;  ///< "x y z <- columns 0 1 2, intensity <- column 3"; empty: no file's
  int ndim = 3;
  std::vector<int32_t> voxels;

  bool has_double_positions() const {
    return std::find(position_types.begin(), position_types.end(), Scalar::F64) != position_types.end();
  }
  int64_t count() const {
    return is_voxels ? static_cast<int64_t>(voxels.size()) / (1 + ndim) : static_cast<int64_t>(points.size());
  }
};

/// What a network takes: unique voxels and a row of features for each.
struct VoxelCloud {
  int ndim = 3;
  int channels = 4;
  std::vector<int32_t> coordinates;   ///< [count, 1 + ndim], batch first
  std::vector<float> features;        ///< [count, channels]
  std::vector<int64_t> row_of_point;  ///< of every point that went in; -1: it was dropped
  int64_t points = 0;                 ///< that went in
  int64_t skipped = 0;                ///< invalid points dropped

  int64_t count() const { return static_cast<int64_t>(coordinates.size()) / (1 + ndim); }
};

}  // namespace minuet::tool
