// The coordinate sets and kernel maps of a cloud at the levels of a U-Net, made by the library.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Tensor strides of the levels, as in MinkUNet.
constexpr std::array<int, 5> kViewStrides = {1, 2, 4, 8, 16};

struct ViewLevel {
  int stride = 1;
  std::vector<int32_t> coordinates;  ///< [rows, 4], batch first, in voxels of stride 1
  std::vector<int32_t> neighbours;   ///< inputs of each row in the submanifold kernel map, including itself
  int64_t pairs = 0;
  /// For each row of the previous level, its row in this level. In the first level, for each voxel of the
  /// input, its row, or -1 if it repeats another voxel.
  std::vector<int32_t> parents;
};

/// Returns one level for each of kViewStrides: the voxels, then repeatedly downsampled by 2, each with the
/// neighbour counts of its submanifold kernel map.
llvm::Expected<std::vector<ViewLevel>> make_levels(minuet_device* device, const VoxelCloud& voxels,
                                                   int kernel_size, bool keep_first_duplicate);

}  // namespace minuet::tool
