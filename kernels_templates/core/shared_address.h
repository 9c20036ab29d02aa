// Addresses of shared memory as the instructions on it take them: 32 bits, in the window of the cluster. On a
// device only; the twins on a host take pointers.
#pragma once

#include "kernels_templates/shared/types.h"

#if defined(__CUDA_ARCH__)
namespace minuet {

MINUET_DEVICE u32 shared_address(const void* shared) {
  return static_cast<u32>(__cvta_generic_to_shared(shared));
}

}  // namespace minuet
#endif
