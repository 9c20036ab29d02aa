// The CUDA names that kernels use, and what kernels_templates/core/ asks of a host, for running kernels on
// the CPU. Include before any kernel header.
//
// One OS thread runs everything: threads are fibers that take turns where they wait, in an order the test
// picks, so that a missing barrier shows. The blocks of a cluster take turns too; clusters run one after
// another.
//
// What is not inline is found by symbol: a kernel may come out of a library that is opened later.
#pragma once

#include <cstdint>

#define MINUET_SHIM_API __attribute__((visibility("default")))

// One copy a kernel instance is one copy a block, for blocks without a cluster run one after another; the
// call notices a cluster, where they do not.
#define __shared__                             \
  ::minuet::shim::note_static_shared_memory(); \
  static

struct ShimIndex {
  unsigned x = 0, y = 0, z = 0;
};
MINUET_SHIM_API extern ShimIndex threadIdx, blockIdx, blockDim, gridDim;

MINUET_SHIM_API void __syncthreads();
/// Also a barrier: how many threads of the block passed a true predicate.
MINUET_SHIM_API int __syncthreads_count(int predicate);

namespace minuet::shim {

/// Ends the launch with std::logic_error, which also says which thread was at it.
[[noreturn]] MINUET_SHIM_API void fail(const char* what);

MINUET_SHIM_API void note_static_shared_memory();
/// Of this block, Grid::shared_bytes of it, poisoned: aligned to 128 bytes and to no more.
MINUET_SHIM_API void* dynamic_shared();
/// A thread that has read, and not fenced since, may not let its warp arrive at an mbarrier: a bulk copy
/// could be in front of the read.
MINUET_SHIM_API void note_shared_read();
MINUET_SHIM_API void fence_shared_reads();

/// Where a warp's threads meet: each brings what it has, the last to come combines it for all. lanes[i] is
/// null for a lane that is not in the mask.
using WarpCombine = void (*)(void* const* lanes);
/// Lanes that the block does not have are left out of the mask, unless the operation wants the `whole` warp.
/// All that meet must bring the same mask and operation; a thread that never comes is an error.
MINUET_SHIM_API void warp_meet(unsigned mask, bool whole, WarpCombine combine, void* mine);

/// sum + a[0] * b[0] + a[1] * b[1] and so on, each addition rounded: what the twins of tensor cores do most,
/// in code that no sanitizer slows down.
MINUET_SHIM_API float add_products(float sum, const float* a, const float* b, int count);

/// Products of a warpgroup's 128 threads, which are made where all of them wait: what they touch before is
/// not what the products should have had. `multiply` gets all threads' operands; b is the same for all.
using WarpgroupMultiply = void (*)(float* const* sums, const unsigned* const* a, unsigned long long b);
MINUET_SHIM_API void wgmma_fence();
MINUET_SHIM_API void wgmma(WarpgroupMultiply multiply, float* sums, const unsigned* a, unsigned long long b);
/// The same, where both operands lie in shared memory. Without `adds` the sums are set to the product.
using WarpgroupSharedMultiply = void (*)(float* const* sums, unsigned long long a, unsigned long long b,
                                         bool adds);
MINUET_SHIM_API void wgmma_shared(WarpgroupSharedMultiply multiply, float* sums, unsigned long long a,
                                  unsigned long long b, bool adds);
MINUET_SHIM_API void wgmma_commit();
/// Waits for all committed products but those of the last `groups` commits.
MINUET_SHIM_API void wgmma_wait(unsigned groups);

MINUET_SHIM_API unsigned cluster_rank();
MINUET_SHIM_API unsigned cluster_size();
MINUET_SHIM_API void cluster_arrive();
MINUET_SHIM_API void cluster_wait();
/// The same place in the dynamic shared memory of another block, which must have started and not have ended.
MINUET_SHIM_API void* map_shared(const void* own, unsigned rank);

/// `barrier`: 8 bytes of shared memory. They hold a mark; the state is the shim's.
MINUET_SHIM_API void mbarrier_init(void* barrier, unsigned count);
/// Makes what this thread has initialised known to bulk copies and to other blocks.
MINUET_SHIM_API void mbarrier_init_fence();
MINUET_SHIM_API void mbarrier_invalidate(void* barrier);
/// `bytes` are added to what the phase waits for first.
MINUET_SHIM_API void mbarrier_arrive(void* barrier, unsigned bytes);
MINUET_SHIM_API void mbarrier_arrive_remote(void* barrier, unsigned rank);
MINUET_SHIM_API void mbarrier_expect(void* barrier, unsigned bytes);
/// Whether the phase of this parity has ended; lets others run where it has not.
MINUET_SHIM_API bool mbarrier_test(void* barrier, unsigned parity);
MINUET_SHIM_API void mbarrier_wait(void* barrier, unsigned parity);

/// Lands at some later switch, and pays `barrier` its bytes then.
MINUET_SHIM_API void bulk_copy(void* shared, const void* global, unsigned bytes, void* barrier);
/// Lands at some later switch, at the latest in async_copy_wait. Zeros where not `present`.
MINUET_SHIM_API void async_copy(void* shared, const void* global, unsigned bytes, bool present);
MINUET_SHIM_API void async_copy_commit();
/// Waits for all groups of this thread but the last `groups`.
MINUET_SHIM_API void async_copy_wait(unsigned groups);
/// Arrives at `barrier` once all earlier asynchronous copies of this thread have landed.
MINUET_SHIM_API void async_copy_arrive(void* barrier);

}  // namespace minuet::shim

inline int atomicMin(int* address, int value) {
  const int old = *address;
  *address = value < old ? value : old;
  return old;
}
inline int atomicMax(int* address, int value) {
  const int old = *address;
  *address = value > old ? value : old;
  return old;
}
inline unsigned atomicOr(unsigned* address, unsigned value) {
  const unsigned old = *address;
  *address = old | value;
  return old;
}
inline unsigned long long atomicOr(unsigned long long* address, unsigned long long value) {
  const unsigned long long old = *address;
  *address = old | value;
  return old;
}
inline unsigned long long atomicCAS(unsigned long long* address, unsigned long long compare,
                                    unsigned long long value) {
  const unsigned long long old = *address;
  if (old == compare) *address = value;
  return old;
}
inline int atomicCAS(int* address, int compare, int value) {
  const int old = *address;
  if (old == compare) *address = value;
  return old;
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  const unsigned old = *address;
  *address = old + value;
  return old;
}

#include "tests/support/shim/warp.h"
