// Blocks that run at the same time and read and write each other's shared memory. From sm_90 on.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// This block's number in its cluster.
MINUET_DEVICE u32 cluster_rank() {
#if defined(__CUDA_ARCH__)
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return shim::cluster_rank();
#endif
}

MINUET_DEVICE u32 cluster_size() {
#if defined(__CUDA_ARCH__)
  u32 size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
#else
  return shim::cluster_size();
#endif
}

/// A barrier of all threads of all blocks, in two halves: what was written before one's arrival is seen
/// behind the wait. Like __syncthreads, whole warps come together.
MINUET_DEVICE void cluster_arrive() {
#if defined(__CUDA_ARCH__)
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
  shim::cluster_arrive();
#endif
}

MINUET_DEVICE void cluster_wait() {
#if defined(__CUDA_ARCH__)
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  shim::cluster_wait();
#endif
}

MINUET_DEVICE void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

/// Where `own` of this block's dynamic shared memory lies in block `rank`. That block must have started,
/// which only a cluster barrier tells, and must not end before the last access, for which another one serves.
template <class T>
MINUET_DEVICE T* map_shared(T* own, u32 rank) {
#if defined(__CUDA_ARCH__)
  u64 mapped;
  asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(reinterpret_cast<u64>(own)), "r"(rank));
  return reinterpret_cast<T*>(mapped);
#else
  return static_cast<T*>(shim::map_shared(own, rank));
#endif
}

}  // namespace minuet
