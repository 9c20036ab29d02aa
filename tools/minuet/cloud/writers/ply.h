// Points or voxels, and what a network says about them, as binary little-endian PLY.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/palette.h"

namespace minuet::tool {

/// One vertex a row: x, y, z, the attributes, then red, green, blue and `label` (int) where there are labels,
/// else feature_0 ... (float). An attribute of such a name is called original_<name>.
struct PlyTable {
  std::vector<std::string> comments;  ///< lines of the header as they are, "comment ..."
  std::vector<Position> positions;    ///< metres
  bool wide = false;                  ///< x, y, z as doubles, for what float32 does not resolve
  std::vector<Attribute> attributes;  ///< of as many rows; 64-bit integers become doubles, float16 float
  const Palette* palette = nullptr;   ///< null: features
  std::vector<int32_t> labels;        ///< -1: none
  std::vector<float> features;        ///< [rows, channels]
  int channels = 0;
};

/// The file's bytes.
std::string ply_bytes(const PlyTable& table);

}  // namespace minuet::tool
