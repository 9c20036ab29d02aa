// One thread's copy of many bytes from global to shared memory, which an mbarrier is told of. From sm_90 on.
#pragma once

#include "kernels_templates/core/mbarrier.h"

namespace minuet {

/// `bytes` is a multiple of 16, both addresses are; the bytes are there when the barrier's phase has ended,
/// which must expect them. What threads of the block read here before must be behind a barrier.
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

}  // namespace minuet
