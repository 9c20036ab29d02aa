// This file combines numbers of many threads into one word by minimum or maximum.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Replaces *address by the minimum of its value and the values of all threads. On a device, all 32 threads
/// of a warp must call this function, and the warp does one atomic operation. In the CPU test shim, each
/// thread does one. warp_atomic_max() does the same for the maximum.
MINUET_DEVICE void warp_atomic_min(i32* address, i32 value) {
#if defined(__CUDA_ARCH__)
  value = __reduce_min_sync(~0u, value);
  if ((threadIdx.x & 31u) == 0) atomicMin(address, value);
#else
  atomicMin(address, value);
#endif
}

MINUET_DEVICE void warp_atomic_max(i32* address, i32 value) {
#if defined(__CUDA_ARCH__)
  value = __reduce_max_sync(~0u, value);
  if ((threadIdx.x & 31u) == 0) atomicMax(address, value);
#else
  atomicMax(address, value);
#endif
}

}  // namespace minuet
