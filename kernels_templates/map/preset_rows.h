// The kernel preset_rows sets all entries of ViewJob::rows to -1 if the table is to be made by transposing a
// kernel map. After it, transpose_rows writes only the entries that have a query. Each thread handles one
// word at a time.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

template <PresetRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void preset_rows(MINUET_PARAMS(ViewsParams) p) {
  follow_last_launch();
  __shared__ i64 starts[kMostViews + 1];
  find_starts<kMostViews>(starts, p.job_count, [&](i32 j) -> i64 {
    return p.jobs[j].forward_rows ? i64{*p.jobs[j].query_count} * p.jobs[j].geometry.volume : 0;
  });
  const i64 items = starts[p.job_count];
  JobIterator walk(starts);
  for (i64 i = grid_thread(S.threads); i < items; i += grid_threads(S.threads)) {
    const ViewJob& job = p.jobs[walk.advance(i)];
    job.rows[walk.inner(i)] = -1;
  }
}

}  // namespace minuet
