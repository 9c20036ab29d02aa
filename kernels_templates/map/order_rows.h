// order[i] = the query that the sort put in place i of its view; ordered_rows[k][i] = rows[k][order[i]], both
// by the names of the job; the masks' words, which the rows tell, and what any of 32 places has. One thread a
// place, of views whose rows lie in a table.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/view_rows.h"

namespace minuet {

template <OrderRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void order_rows(const ViewsParams p) {
  follow_last_launch();
  constexpr i32 kAtOnce = 16;  // rows of a query that are under way together
  __shared__ i64 keys[kMostViews + 1], blocks[kMostViews + 1];
  find_starts<S.threads, kMostViews>(
      keys, p.job_count, [&](i32 j) -> i64 { return p.jobs[j].order ? *p.jobs[j].query_count : 0; });
  find_starts<S.threads, kMostViews>(blocks, p.job_count, [&](i32 j) -> i64 {
    const bool is_here = p.jobs[j].order && p.jobs[j].source == RowSource::Table;
    return is_here ? blocks_of_height(*p.jobs[j].query_count, S.threads) : 0;
  });
  JobWalk walk(blocks);
  for (i64 block = blockIdx.x; block < blocks[p.job_count]; block += gridDim.x) {
    const i32 j = walk.advance(block);
    const ViewJob& job = p.jobs[j];
    const OrderedPlace at = find_place(job, p.sorted + keys[j], walk.inner(block) * S.threads);
    const ViewRows rows = rows_of(job);
    if (at.is_there)
      job.order[at.place] = job.query_names ? fresh(job.query_names + at.query) : static_cast<i32>(at.query);
    i32* to = job.ordered_rows + at.place;
    u32 mask = 0;
    for (i32 first = 0; first < rows.volume; first += kAtOnce) {
      i32 found[kAtOnce] = {};
      if (at.is_there) rows.load(at.query, first, found);
      mask |= bits_of(found) << first % 32;
      if (job.row_names && at.is_there) name_rows(job.row_names, found);
      MINUET_UNROLL
      for (i32 u = 0; u < kAtOnce; ++u, to += job.ordered_stride) {
        if (at.is_there && first + u < rows.volume) *to = found[u];
      }
      if (first % 32 + kAtOnce < 32 && first + kAtOnce < rows.volume) continue;
      put_ordered_mask(job, at, first / 32, mask);
      mask = 0;
    }
  }
}

}  // namespace minuet
