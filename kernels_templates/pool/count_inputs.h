// The kernel count_inputs counts the inputs of each output of a pooling (shared/pool_kernels.h). The sums are
// integers, so that they do not depend on the order of the threads.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/shared/pool_kernels.h"

namespace minuet {

template <CountInputsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void count_inputs(MINUET_PARAMS(PoolGradientParams) p) {
  const i64 entries = static_cast<i64>(*p.output_count) * p.volume;
  for (i64 entry = grid_thread(S.threads); entry < entries; entry += grid_threads(S.threads)) {
    const i32 output = read_only(p.rows + entry);
    if (output >= 0) atomicAdd(p.counts + output, 1u);
  }
}

}  // namespace minuet
