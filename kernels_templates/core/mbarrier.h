// Barriers in shared memory that threads arrive at and bulk copies pay bytes to. From sm_90 on.
//
// A barrier's phases have parity 0, 1, 0 and so on. A phase ends when as many threads arrived as the barrier
// was made for and all bytes that were expected have come; waiting for parity 1 before any phase ended
// returns at once.
#pragma once

#include "kernels_templates/core/shared_address.h"

namespace minuet {

struct alignas(8) MBarrier {
  u64 state;  // the hardware's
};

/// By one thread; the others of the block see it behind mbarrier_init_fence() of that thread and
/// __syncthreads(), other blocks behind a cluster barrier.
MINUET_DEVICE void mbarrier_init(MBarrier* barrier, u32 count) {
#if defined(__CUDA_ARCH__)
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
#else
  shim::mbarrier_init(barrier, count);
#endif
}

/// Bulk copies go another road to memory than threads do, and must find the barriers initialised there.
MINUET_DEVICE void mbarrier_init_fence() {
#if defined(__CUDA_ARCH__)
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  shim::mbarrier_init_fence();
#endif
}

/// Before its memory is used for something else.
MINUET_DEVICE void mbarrier_invalidate(MBarrier* barrier) {
#if defined(__CUDA_ARCH__)
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
#else
  shim::mbarrier_invalidate(barrier);
#endif
}

MINUET_DEVICE void mbarrier_arrive(MBarrier* barrier) {
#if defined(__CUDA_ARCH__)
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#else
  shim::mbarrier_arrive(barrier, 0);
#endif
}

/// At the barrier that lies at the same place in block `rank` of the cluster; that block waits with
/// mbarrier_wait_cluster().
MINUET_DEVICE void mbarrier_arrive_remote(MBarrier* barrier, u32 rank) {
#if defined(__CUDA_ARCH__)
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;"
      " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
#else
  shim::mbarrier_arrive_remote(barrier, rank);
#endif
}

/// Arrives, and the phase waits for `bytes` of bulk copies besides.
MINUET_DEVICE void mbarrier_arrive_expect(MBarrier* barrier, u32 bytes) {
#if defined(__CUDA_ARCH__)
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#else
  shim::mbarrier_arrive(barrier, bytes);
#endif
}

/// Whether the phase of this parity has ended; sleeps a while where it has not.
MINUET_DEVICE bool mbarrier_try_wait(MBarrier* barrier, u32 parity) {
#if defined(__CUDA_ARCH__)
  u32 ended;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(ended)
               : "r"(shared_address(barrier)), "r"(parity)
               : "memory");
  return ended != 0;
#else
  return shim::mbarrier_test(barrier, parity);
#endif
}

MINUET_DEVICE void mbarrier_wait(MBarrier* barrier, u32 parity) {
#if defined(__CUDA_ARCH__)
  while (!mbarrier_try_wait(barrier, parity)) {
  }
#else
  shim::mbarrier_wait(barrier, parity);
#endif
}

/// Sees what other blocks of the cluster wrote before they arrived, too.
MINUET_DEVICE void mbarrier_wait_cluster(MBarrier* barrier, u32 parity) {
#if defined(__CUDA_ARCH__)
  u32 ended;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
        " selp.u32 %0, 1, 0, p; }"
        : "=r"(ended)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  } while (ended == 0);
#else
  shim::mbarrier_wait(barrier, parity);
#endif
}

}  // namespace minuet
