// rows = -1 in every transposed view: what transpose_rows leaves alone has no query. One thread a word, or,
// of rows by query, a vector.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

template <PresetRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void preset_rows(const ViewsParams p) {
  follow_last_launch();
  __shared__ i64 starts[kMostViews + 1];
  find_starts<S.threads, kMostViews>(starts, p.job_count, [&](i32 j) -> i64 {
    return p.jobs[j].forward_rows ? *p.jobs[j].query_count * preset_items(p.jobs[j]) : 0;
  });
  const i64 items = starts[p.job_count];
  JobWalk walk(starts);
  for (i64 i = grid_thread(S.threads); i < items; i += grid_threads(S.threads)) {
    const ViewJob& job = p.jobs[walk.advance(i)];
    const i64 item = walk.inner(i);
    if (job.by_query) {
      store_vector<16>(job.rows, 16 * item, {{~0u, ~0u, ~0u, ~0u}});
    } else {
      job.rows[item] = -1;
    }
  }
}

}  // namespace minuet
