// order[i] = the query that the sort put in place i of its view; ordered_rows[k][i] = rows[k][order[i]], both
// by the names of the job, and the masks' words, which the rows tell. One thread a place.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/view_rows.h"

namespace minuet {

/// Of rows that are there.
template <i32 Count>
MINUET_DEVICE void name_rows(const i32* names, i32 first, i32 volume, i32 (&found)[Count]) {
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u) {
    found[u] = load_row_if<true>(first + u < volume && found[u] >= 0, names + found[u]);
  }
}

template <OrderRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void order_rows(const ViewsParams p) {
  follow_last_launch();
  constexpr i32 kAtOnce = 16;  // rows of a query that are under way together
  __shared__ i64 starts[kMostViews + 1];
  find_starts<S.threads, kMostViews>(
      starts, p.job_count, [&](i32 j) -> i64 { return p.jobs[j].order ? *p.jobs[j].query_count : 0; });
  const i64 all = starts[p.job_count];
  JobWalk walk(starts);
  for (i64 i = grid_thread(S.threads); i < all; i += grid_threads(S.threads)) {
    const ViewJob& job = p.jobs[walk.advance(i)];
    const i64 place = walk.inner(i), query = fresh(p.sorted + i);
    const ViewRows rows = rows_of(job);
    job.order[place] = job.query_names ? fresh(job.query_names + query) : static_cast<i32>(query);
    i32* to = job.ordered_rows + place;
    u32 mask = 0;
    for (i32 first = 0; first < rows.volume; first += kAtOnce) {
      i32 found[kAtOnce];
      rows.load(query, first, found);
      mask |= bits_of(found, first, rows.volume) << first % 32;
      if (job.row_names) name_rows(job.row_names, first, rows.volume, found);
      MINUET_UNROLL
      for (i32 u = 0; u < kAtOnce; ++u, to += job.ordered_stride) {
        if (first + u < rows.volume) *to = found[u];
      }
      if (first % 32 + kAtOnce < 32 && first + kAtOnce < rows.volume) continue;
      job.ordered_masks[first / 32 * job.ordered_stride + place] = mask;
      mask = 0;
    }
  }
}

}  // namespace minuet
