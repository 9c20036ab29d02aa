// Writes binary little-endian PLY files with points or voxels and a network's output for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/palette.h"

namespace minuet::tool {

/// Describes the vertices of a file. A vertex has x, y, z, the attributes, and then either red, green, blue
/// and `label` (int) or feature_0, feature_1, ... (float). An attribute with one of these names becomes
/// original_<name>.
struct PlyTable {
  std::vector<std::string> comments;  ///< Holds complete header lines such as "comment made by hand".
  std::vector<Position> positions;    ///< Holds x, y and z in metres.
  /// Tells whether to write x, y and z as doubles, for positions that float32 would round too much.
  bool wide = false;
  /// Attributes of 64-bit integers are written as doubles, and those of float16 as floats.
  std::vector<Attribute> attributes;
  const Palette* palette = nullptr;  ///< The file has labels in these colours, or features if this is null.
  std::vector<int32_t> labels;       ///< Holds a label for each vertex, or -1 for none.
  std::vector<float> features;       ///< Holds an array [rows, channels].
  int channels = 0;
};

/// Returns the bytes of a PLY file with the vertices of the table.
std::string ply_bytes(const PlyTable& table);

}  // namespace minuet::tool
