// This file converts a pointer to shared memory into the 32-bit address in the cluster's shared window that
// PTX instructions take. It is for devices only, because the host versions in core/ take pointers.
#pragma once

#include "kernels_templates/shared/types.h"

#if defined(__CUDA_ARCH__)
namespace minuet {

MINUET_DEVICE u32 shared_address(const void* shared) {
  return static_cast<u32>(__cvta_generic_to_shared(shared));
}

}  // namespace minuet
#endif
