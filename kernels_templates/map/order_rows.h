// order[i] = the query that the sort put in place i of its view; ordered_rows[k][i] = rows[k][order[i]], and
// the same of the masks' words. One thread a place.
#pragma once

#include "kernels_templates/core/jobs.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

/// to[k][place] = from[k][query]: a few reads are under way at once.
template <class Word>
MINUET_DEVICE void copy_column(const Word* from, i64 queries, i64 query, Word* to, i64 stride, i64 place,
                               i32 words) {
  constexpr i32 kAtOnce = 9;
  for (i32 first = 0; first < words; first += kAtOnce) {
    Word values[kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      if (first + u < words) values[u] = read_only(from + (first + u) * queries + query);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      if (first + u < words) to[(first + u) * stride + place] = values[u];
    }
  }
}

template <OrderRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void order_rows(const ViewsParams p) {
  __shared__ i64 starts[kMostViews + 1];
  find_starts<S.threads, kMostViews>(
      starts, p.job_count, [&](i32 j) -> i64 { return p.jobs[j].order ? *p.jobs[j].query_count : 0; });
  const i64 all = starts[p.job_count];
  JobWalk walk(starts);
  for (i64 i = grid_thread(S.threads); i < all; i += grid_threads(S.threads)) {
    const i32 j = walk.advance(i), volume = p.jobs[j].volume;
    const i64 place = walk.inner(i), queries = *p.jobs[j].query_count, stride = p.jobs[j].ordered_stride;
    const i64 query = read_only(p.sorted + i);
    p.jobs[j].order[place] = static_cast<i32>(query);
    copy_column<i32>(p.jobs[j].rows, queries, query, p.jobs[j].ordered_rows, stride, place, volume);
    copy_column<u32>(p.jobs[j].masks, queries, query, p.jobs[j].ordered_masks, stride, place,
                     mask_words(volume));
  }
}

}  // namespace minuet
