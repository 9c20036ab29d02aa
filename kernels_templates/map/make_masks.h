// The kernel make_masks computes masks[w][q], the bits of the offsets 32 w, 32 w + 1, ... at which query q
// has a row. It also adds the number of queries that have a row at offset k to counts[k]. Each thread handles
// one query. Warps count by votes, and blocks add up their counts in shared memory.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/view_rows.h"
#include "kernels_templates/core/votes.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

template <MakeMasksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void make_masks(MINUET_PARAMS(MakeMasksParams) p) {
  follow_last_launch();
  static_assert(S.threads % 32 == 0, "whole warps vote");
  __shared__ u32 counts[32];
  const i64 queries = *p.query_count;
  const ViewRows rows{p.rows, queries, p.volume};
  for (i32 word = 0; word < mask_words(p.volume); ++word) {
    const i32 first = 32 * word, offsets = p.volume - first < 32 ? p.volume - first : 32;
    if (threadIdx.x < 32) counts[threadIdx.x] = 0;
    __syncthreads();
    u32 count = 0;
    // All lanes of a warp must vote, including those past the last query.
    const i64 start = grid_thread(S.threads);
    for (i64 q = start; q - static_cast<i64>(threadIdx.x & 31u) < queries; q += grid_threads(S.threads)) {
      const u32 bits = mask_word(rows, q, word);
      if (q < queries) p.masks[word * queries + q] = bits;
      count += count_votes(bits);
    }
    if (count != 0) atomicAdd(&counts[threadIdx.x & 31u], count);
    __syncthreads();
    if (static_cast<i32>(threadIdx.x) < offsets && counts[threadIdx.x] != 0) {
      atomicAdd(p.counts + first + threadIdx.x, counts[threadIdx.x]);
    }
    __syncthreads();
  }
}

}  // namespace minuet
