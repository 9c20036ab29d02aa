// The kernel count_pairs computes counts[k], the number of queries that have a source at offset k of the
// kernel map. It runs as one block with one thread per offset.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <CountPairsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void count_pairs(MINUET_PARAMS(CountPairsParams) p) {
  follow_last_launch();
  const i64 queries = *p.query_count;
  for (i64 k = grid_thread(S.threads); k < p.volume; k += grid_threads(S.threads)) {
    p.counts[k] = fresh(p.positions + (k + 1) * queries) - fresh(p.positions + k * queries);
  }
}

}  // namespace minuet
