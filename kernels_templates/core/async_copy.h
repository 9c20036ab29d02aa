// Each thread's small copies from global to shared memory that need no registers and no waiting on the way
// (cp.async).
#pragma once

#include "kernels_templates/core/shared_address.h"

namespace minuet {

/// 4, 8 or 16 bytes, both addresses aligned to them. Zeros where not `present`, and nothing is read.
template <i32 Bytes>
MINUET_DEVICE void async_copy_if(bool present, void* shared, const void* global) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "one copy is 4, 8 or 16 bytes");
#if defined(__CUDA_ARCH__)
  const u32 source_bytes = present ? Bytes : 0;
  if constexpr (Bytes == 16) {  // past L1, where nobody else would find it
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(source_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "n"(Bytes), "r"(source_bytes)
                 : "memory");
  }
#else
  shim::async_copy(shared, global, Bytes, present);
#endif
}

template <i32 Bytes>
MINUET_DEVICE void async_copy(void* shared, const void* global) {
  async_copy_if<Bytes>(true, shared, global);
}

/// Makes a group of this thread's copies since the last one.
MINUET_DEVICE void async_copy_commit() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  shim::async_copy_commit();
#endif
}

/// Until all groups of this thread but the last `Groups` are there, for this thread; for others, behind a
/// barrier after that.
template <i32 Groups>
MINUET_DEVICE void async_copy_wait() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
#else
  shim::async_copy_wait(Groups);
#endif
}

}  // namespace minuet
