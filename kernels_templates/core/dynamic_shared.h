// This file gives access to dynamic shared memory, whose size the launch sets. It may exceed the 48 KB limit
// of static shared arrays.
#pragma once

#include "kernels_templates/core/vector.h"

namespace minuet {

constexpr i32 kDynamicSharedAlignment = 128;

/// Returns the start of the block's dynamic shared memory, which is not initialised. A kernel that runs in
/// clusters must keep all memory that it shares between blocks there.
MINUET_DEVICE unsigned char* dynamic_shared() {
#if defined(__CUDA_ARCH__)
  extern __shared__ __align__(kDynamicSharedAlignment) unsigned char minuet_dynamic_shared[];
  return minuet_dynamic_shared;
#else
  return static_cast<unsigned char*>(shim::dynamic_shared());
#endif
}

MINUET_DEVICE Vector<16> load_shared_vector(const void* shared) {
#if defined(__CUDA_ARCH__)
  Vector<16> v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
               : "r"(static_cast<u32>(__cvta_generic_to_shared(shared))));
  return v;
#else
  shim::note_shared_read();
  return *static_cast<const Vector<16>*>(shared);
#endif
}

}  // namespace minuet
