// Writer of binary little-endian PLY files with points or voxels and a network's output for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/palette.h"

namespace minuet::tool {

/// The vertices of a file. A vertex has x, y, z, the attributes, and then either red, green, blue and `label`
/// (int) or feature_0, feature_1, ... (float). An attribute with one of these names becomes original_<name>.
struct PlyTable {
  std::vector<std::string> comments;  ///< complete header lines, "comment ..."
  std::vector<Position> positions;    ///< metres
  bool wide = false;                  ///< true to write x, y, z as doubles if float32 is too coarse
  std::vector<Attribute> attributes;  ///< 64-bit integers are written as doubles, float16 as float
  const Palette* palette = nullptr;   ///< null means features, otherwise labels
  std::vector<int32_t> labels;        ///< -1 means no label
  std::vector<float> features;        ///< [rows, channels]
  int channels = 0;
};

/// Returns the bytes of the file.
std::string ply_bytes(const PlyTable& table);

}  // namespace minuet::tool
