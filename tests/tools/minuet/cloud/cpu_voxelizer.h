// Makes voxels on the CPU, for tests.
#pragma once

#include "tools/minuet/library/voxelizer.h"

namespace minuet::tool {

/// A context and a device that all tests of a process share.
inline const Voxelizer& cpu_voxelizer() {
  static const Voxelizer voxelizer = llvm::cantFail(make_voxelizer());
  return voxelizer;
}

}  // namespace minuet::tool
