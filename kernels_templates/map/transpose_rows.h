// The kernel transpose_rows sets rows[k][forward_rows[k][q]] = q in every view (ViewJob) that has
// forward_rows. Each thread handles one query. No two queries have the same source at one offset, so writes
// never collide.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/view_rows.h"

namespace minuet {

template <TransposeRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void transpose_rows(MINUET_PARAMS(ViewsParams) p) {
  follow_last_launch();
  constexpr i32 kAtOnce = 8;
  __shared__ i64 starts[kMostViews + 1];
  find_starts<kMostViews>(starts, p.job_count, [&](i32 j) -> i64 {
    return p.jobs[j].forward_rows ? *p.jobs[j].forward_count : 0;
  });
  const i64 all = starts[p.job_count];
  JobIterator walk(starts);
  for (i64 i = grid_thread(S.threads); i < all; i += grid_threads(S.threads)) {
    const ViewJob& job = p.jobs[walk.advance(i)];
    const i64 query = walk.inner(i), sources = *job.query_count;
    const ViewRows forward{job.forward_rows, *job.forward_count, job.geometry.volume};
    for (i32 first = 0; first < forward.volume; first += kAtOnce) {
      i32 found[kAtOnce];
      forward.load(query, first, found);
      MINUET_UNROLL
      for (i32 u = 0; u < kAtOnce; ++u) {
        if (found[u] >= 0) job.rows[(first + u) * sources + found[u]] = static_cast<i32>(query);
      }
    }
  }
}

}  // namespace minuet
