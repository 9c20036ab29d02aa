// Voxels and what a network says about them, as binary little-endian PLY.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace minuet::tool {

/// One vertex a row: x, y, z, then `label` (int) where `labelled`, else feature_0 ... (float)
/// of the [rows, channels] features.
struct PlyTable {
  std::vector<std::array<float, 3>> positions;  ///< metres
  bool labelled = false;
  std::vector<int32_t> labels;
  std::vector<float> features;
  int channels = 0;
};

llvm::Error write_ply(llvm::StringRef path, const PlyTable& table);

}  // namespace minuet::tool
