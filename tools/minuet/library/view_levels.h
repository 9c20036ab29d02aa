// Makes the coordinate sets and kernel maps of a cloud at the levels of a U-Net, by calls of the library.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Lists the tensor strides of the levels, which are those of MinkUNet.
constexpr std::array<int, 5> kViewStrides = {1, 2, 4, 8, 16};

struct ViewLevel {
  int stride = 1;
  /// Has the shape [rows, 4]. The batch comes first, and the axes follow in voxels of stride 1.
  std::vector<int32_t> coordinates;
  /// Counts the inputs of each row in the submanifold kernel map, including the row itself.
  std::vector<int32_t> neighbours;
  int64_t pairs = 0;
  /// Has, for each row of the previous level, its row in this level. In the first level, it has the row of
  /// each voxel of the input, or -1 if the voxel repeats another one.
  std::vector<int32_t> parents;
};

/// Returns one level for each of kViewStrides, with the neighbour counts of its submanifold kernel map. The
/// first level has the voxels, and each further level is the previous one downsampled by 2.
llvm::Expected<std::vector<ViewLevel>> make_levels(minuet_device* device, const VoxelCloud& voxels,
                                                   int kernel_size, bool keep_first_duplicate);

}  // namespace minuet::tool
