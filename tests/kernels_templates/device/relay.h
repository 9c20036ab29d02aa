// out[i] = in[i] + MINUET_RELAY_STEP, which is an option of the compile, by blocks that stride over i; and
// every block learns which block is behind it in its cluster, out of the last word of that block's shared
// memory. It may start while the launch in front of it runs, whose out is its in.
#pragma once

#include "kernels_templates/core/cluster.h"
#include "kernels_templates/core/dynamic_shared.h"
#include "kernels_templates/core/grid.h"
#include "tests/kernels_templates/device/relay_kernel.h"

#if !defined(MINUET_RELAY_STEP)
#define MINUET_RELAY_STEP 0
#endif

namespace minuet {

/// What comes after may start, and this one goes on when what it came after has ended.
MINUET_DEVICE void relay_turn() {
#if defined(__CUDA_ARCH__)
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <RelaySpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void relay(MINUET_PARAMS(RelayParams) p) {
  i32* last = reinterpret_cast<i32*>(dynamic_shared() + S.shared_bytes) - 1;
  if (threadIdx.x == 0) *last = static_cast<i32>(blockIdx.x);
  cluster_sync();
  const i32 behind = *map_shared(last, (cluster_rank() + 1) % cluster_size());
  cluster_sync();  // a block's shared memory ends with it
  relay_turn();
  if (threadIdx.x == 0) p.neighbours[blockIdx.x] = behind;
  for (i64 i = grid_thread(S.threads); i < p.count; i += grid_threads(S.threads)) {
    p.out[i] = p.in[i] + MINUET_RELAY_STEP;
  }
}

}  // namespace minuet
