// One thread's copy of many bytes from global to shared memory, which an mbarrier is told of. From sm_90 on.
#pragma once

#include "kernels_templates/core/mbarrier.h"

namespace minuet {

/// `bytes` is a multiple of 16, both addresses are; the bytes are there when the barrier's phase has ended,
/// which must expect them. What threads of the block read here before must be behind bulk_copy_fence() and a
/// barrier.
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

/// By each thread that read what a bulk copy writes next, before it, or its warp for it, arrives at the
/// barrier that tells so. An arrival alone does not wait for the reads: bulk copies go another road to memory
/// (PTX ISA, "proxy"), and were seen on an H200 to be in front of a read that was issued before the arrival.
MINUET_DEVICE void bulk_copy_fence() {
#if defined(__CUDA_ARCH__)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  shim::fence_shared_reads();
#endif
}

}  // namespace minuet
