// Makes voxels of points by minuet_voxelize().
#pragma once

#include "tools/minuet/cloud/voxelize.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Returns a function that makes voxels on the CPU. The context must outlive it. A bundle of a network has no
/// kernels of points, and compiling them would delay the first inference, so no GPU is used.
llvm::Expected<Voxelizer> voxelizer_of(minuet_context* context);
/// Works like voxelizer_of(), with a context of its own.
llvm::Expected<Voxelizer> make_voxelizer();

}  // namespace minuet::tool
