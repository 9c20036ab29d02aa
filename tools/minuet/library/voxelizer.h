// Makes voxels of points by minuet_voxelize().
#pragma once

#include "tools/minuet/cloud/voxelize.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Returns a function that makes voxels on the device. The context and the device must outlive it.
Voxelizer voxelizer_on(minuet_context* context, minuet_device* device, std::string arch);
/// Returns a function that makes voxels on the CPU, with a context of its own.
llvm::Expected<Voxelizer> voxelizer_on_cpu();

}  // namespace minuet::tool
