// What a reader hands on: points in metres, or voxels that somebody else made.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace minuet::tool {

/// x, y, z in metres and intensity (0 where the file has none).
using Point = std::array<float, 4>;

/// Either points, or int32 voxel coordinates [count, 1 + ndim], batch first.
struct Cloud {
  bool is_voxels = false;
  std::vector<Point> points;
  int ndim = 3;
  std::vector<int32_t> voxels;

  int64_t count() const {
    return is_voxels ? static_cast<int64_t>(voxels.size()) / (1 + ndim) : static_cast<int64_t>(points.size());
  }
};

/// What a network takes: unique voxels and a row of features for each.
struct VoxelCloud {
  int ndim = 3;
  int channels = 4;
  std::vector<int32_t> coordinates;  ///< [count, 1 + ndim], batch first
  std::vector<float> features;       ///< [count, channels]
  int64_t points = 0;                ///< that went in
  int64_t skipped = 0;               ///< invalid points dropped

  int64_t count() const { return static_cast<int64_t>(coordinates.size()) / (1 + ndim); }
};

}  // namespace minuet::tool
