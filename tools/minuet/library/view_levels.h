// A cloud's coordinate sets and kernel maps as a U-Net has them, made by the library.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Tensor strides of the levels, those of MinkUNet.
constexpr std::array<int, 5> kViewStrides = {1, 2, 4, 8, 16};

struct ViewLevel {
  int stride = 1;
  std::vector<int32_t> coordinates;  ///< [rows, 4], batch first, in voxels of stride 1
  std::vector<int32_t> neighbours;   ///< inputs of each row in the submanifold kernel map, itself counted
  int64_t pairs = 0;
  /// The row of each row of the level before; in the first level of each of the input's voxels, where -1 is
  /// one that repeats another.
  std::vector<int32_t> parents;
};

/// The voxels, and what downsampling by 2 makes of them, kViewStrides in all; of each its submanifold kernel
/// map.
llvm::Expected<std::vector<ViewLevel>> make_levels(minuet_device* device, const VoxelCloud& voxels,
                                                   int kernel_size, bool keep_first_duplicate);

}  // namespace minuet::tool
