// This file wraps bulk copies from global to shared memory. One thread issues a copy, which completes on an
// mbarrier. Bulk copies require sm_90.
#pragma once

#include "kernels_templates/core/mbarrier.h"

namespace minuet {

/// Starts a copy of `bytes` bytes. `bytes` and both addresses must be multiples of 16. The data is visible
/// when the current phase of `barrier` ends, and that phase must expect the bytes (mbarrier_arrive_expect()).
/// If threads of the block have read the destination, each of them must call bulk_copy_fence() and arrive at
/// a barrier before the copy starts.
MINUET_DEVICE void bulk_copy(void* shared, const void* global, u32 bytes, MBarrier* barrier) {
#if defined(__CUDA_ARCH__)
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
#else
  shim::bulk_copy(shared, global, bytes, barrier);
#endif
}

/// Orders this thread's earlier reads of shared memory before later bulk copies into it. Each thread that has
/// read calls this before it, or its warp, arrives at the barrier that allows the copy. The arrival alone is
/// not enough. Bulk copies use the async proxy (PTX ISA, "proxy"), and on an H200 they have overtaken a read
/// that was issued before the arrival.
MINUET_DEVICE void bulk_copy_fence() {
#if defined(__CUDA_ARCH__)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  shim::fence_shared_reads();
#endif
}

}  // namespace minuet
