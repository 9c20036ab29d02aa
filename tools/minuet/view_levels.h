// A cloud's coordinate sets and kernel maps as a U-Net has them, made by the library.
#pragma once

#include <cstdint>
#include <vector>

#include "llvm/Support/Error.h"
#include "tools/minuet/library.h"
#include "tools/minuet/view_data.h"

namespace minuet::tool {

/// The voxels, and what downsampling by 2 makes of them, kViewStrides in all; of each its submanifold kernel
/// map.
llvm::Expected<std::vector<ViewLevel>> make_levels(minuet_device* device, const VoxelCloud& voxels,
                                                   int kernel_size, bool keep_first_duplicate);

}  // namespace minuet::tool
