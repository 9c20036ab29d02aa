// Makes voxels of points by minuet_voxelize().
#pragma once

#include "tools/minuet/cloud/voxelize.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Returns a function that makes voxels on the session's device. The first call compiles or loads the
/// kernels, which `minuet precompile` puts into bundles too (kVoxelizerNetwork). The session must outlive the
/// function.
Voxelizer voxelizer_of(const Session& session);
/// Works like voxelizer_of(), on the CPU and with a context of its own.
llvm::Expected<Voxelizer> make_voxelizer();

/// Describes a network in fp32 that has the kernels of voxelizer_of().
extern const char kVoxelizerNetwork[];

}  // namespace minuet::tool
