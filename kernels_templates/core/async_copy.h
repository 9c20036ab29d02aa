// This file wraps asynchronous copies (cp.async). One thread copies 4, 8 or 16 bytes from global to shared
// memory, and the data does not pass through registers.
#pragma once

#include "kernels_templates/core/shared_address.h"

namespace minuet {

/// Copies `Bytes` bytes (4, 8 or 16) if `present`. Otherwise it writes zeros and reads nothing. Both
/// addresses must be aligned to `Bytes`.
template <i32 Bytes>
MINUET_DEVICE void async_copy_if(bool present, void* shared, const void* global) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "one copy is 4, 8 or 16 bytes");
#if defined(__CUDA_ARCH__)
  const u32 source_bytes = present ? Bytes : 0;
  // A copy of 16 bytes bypasses L1, because other threads of the multiprocessor are not expected to read the
  // same cache line.
  if constexpr (Bytes == 16) {
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

/// Commits this thread's copies since the last commit as one group.
MINUET_DEVICE void async_copy_commit() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  shim::async_copy_commit();
#endif
}

/// Waits until all committed groups of this thread, except the latest `Groups`, have completed. Then only
/// this thread sees the data. Other threads need a barrier after the wait.
template <i32 Groups>
MINUET_DEVICE void async_copy_wait() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
#else
  shim::async_copy_wait(Groups);
#endif
}

}  // namespace minuet
