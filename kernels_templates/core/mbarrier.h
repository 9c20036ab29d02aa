// This file wraps barriers in shared memory that count arrivals of threads and bytes of bulk copies. They
// require sm_90.
//
// A barrier's phases have parity 0, 1, 0, and so on. A phase ends when the number of arrivals given at
// initialisation and all expected bytes have been reached. A wait for parity 1 returns at once if no phase
// has ended yet.
#pragma once

#include "kernels_templates/core/shared_address.h"

namespace minuet {

struct alignas(8) MBarrier {
  u64 state;  // The hardware defines the meaning of the bits.
};

/// Initialises the barrier for `count` arrivals per phase. One thread calls it and then
/// mbarrier_init_fence(). Afterwards, other threads of the block may use the barrier once they have passed a
/// __syncthreads(), and other blocks once they have passed a cluster barrier.
MINUET_DEVICE void mbarrier_init(MBarrier* barrier, u32 count) {
#if defined(__CUDA_ARCH__)
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
#else
  shim::mbarrier_init(barrier, count);
#endif
}

/// Makes initialised barriers visible to the cluster and to bulk copies, which access shared memory through
/// the async proxy.
MINUET_DEVICE void mbarrier_init_fence() {
#if defined(__CUDA_ARCH__)
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  shim::mbarrier_init_fence();
#endif
}

/// Invalidates the barrier. This is required before its memory is used for anything else.
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

/// Arrives at the barrier once all asynchronous copies (core/async_copy.h) that this thread has started so
/// far have completed, and returns at once. The arrival is one of those that the barrier was initialised for.
MINUET_DEVICE void mbarrier_arrive_behind_copies(MBarrier* barrier) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
#else
  shim::async_copy_arrive(barrier);
#endif
}

/// Arrives at the barrier at the same shared memory address in block `rank` of the cluster. That block must
/// wait with mbarrier_wait_cluster().
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

/// Arrives, and makes the current phase also wait for `bytes` bytes of bulk copies.
MINUET_DEVICE void mbarrier_arrive_expect(MBarrier* barrier, u32 bytes) {
#if defined(__CUDA_ARCH__)
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#else
  shim::mbarrier_arrive(barrier, bytes);
#endif
}

/// Returns true if the phase of this parity has ended. If it has not, the thread may be suspended for a
/// limited time first.
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

/// Waits like mbarrier_wait(), and also makes visible the writes that other blocks of the cluster did before
/// they arrived.
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
