// Dynamic shared memory: as much of it as the launch asks for, also past the 48 KB that static arrays may
// have.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

constexpr i32 kDynamicSharedAlignment = 128;

/// The block's, not initialised. A kernel that runs in clusters keeps all that its block shares in it.
MINUET_DEVICE unsigned char* dynamic_shared() {
#if defined(__CUDA_ARCH__)
  extern __shared__ __align__(kDynamicSharedAlignment) unsigned char minuet_dynamic_shared[];
  return minuet_dynamic_shared;
#else
  return static_cast<unsigned char*>(shim::dynamic_shared());
#endif
}

}  // namespace minuet
