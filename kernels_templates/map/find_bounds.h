// The kernel find_bounds computes bounds[0][f], the minimum of field f over all coordinates, and
// bounds[1][f], its maximum. Field 0 is the batch.
//
// Each thread keeps the minima and maxima of its part of the coordinates in registers. Warps combine them,
// then blocks combine them in shared memory. The grid combines them with one atomic operation per field and
// block.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/reduce.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <FindBoundsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void find_bounds(MINUET_PARAMS(FindBoundsParams) p) {
  follow_last_launch();
  static_assert(S.threads % 32 == 0, "whole warps reduce together");
  constexpr i32 kFields = S.ndim + 1;
  __shared__ i32 block_least[kFields];
  __shared__ i32 block_greatest[kFields];

  i32 least[kFields], greatest[kFields];
  MINUET_UNROLL
  for (i32 f = 0; f < kFields; ++f) {
    least[f] = 0x7fffffff;
    greatest[f] = -0x7fffffff - 1;
  }
  const i64 count = *p.count;
  for (i64 i = grid_thread(S.threads); i < count; i += grid_threads(S.threads)) {
    MINUET_UNROLL
    for (i32 f = 0; f < kFields; ++f) {
      const i32 value = fresh(p.coordinates + i * kFields + f);
      least[f] = value < least[f] ? value : least[f];
      greatest[f] = value > greatest[f] ? value : greatest[f];
    }
  }

  for (i32 f = threadIdx.x; f < kFields; f += S.threads) {
    block_least[f] = 0x7fffffff;
    block_greatest[f] = -0x7fffffff - 1;
  }
  __syncthreads();
  MINUET_UNROLL
  for (i32 f = 0; f < kFields; ++f) {
    warp_atomic_min(&block_least[f], least[f]);
    warp_atomic_max(&block_greatest[f], greatest[f]);
  }
  __syncthreads();
  for (i32 f = threadIdx.x; f < kFields; f += S.threads) {
    atomicMin(p.bounds + f, block_least[f]);
    atomicMax(p.bounds + kMaxFields + f, block_greatest[f]);
  }
}

}  // namespace minuet
