// This file wraps thread block clusters, whose blocks run at the same time and access each other's shared
// memory. Clusters require sm_90.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

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

/// Arrives at a barrier over all threads of all blocks of the cluster. Writes before the arrival are visible
/// to the cluster's threads after cluster_wait(). All threads of a warp must call it together.
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

/// Returns the address in block `rank` that corresponds to `own`, an address in this block's dynamic shared
/// memory. A cluster barrier must come before the first access and after the last, so that the other block
/// has started and has not ended.
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
