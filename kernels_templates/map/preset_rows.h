// rows = -1 in every transposed view: what transpose_rows leaves alone has no query. One thread a word.
#pragma once

#include "kernels_templates/core/jobs.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

template <PresetRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void preset_rows(const ViewsParams p) {
  __shared__ i64 starts[kMostViews + 1];
  find_starts<S.threads, kMostViews>(starts, p.job_count, [&](i32 j) -> i64 {
    return p.jobs[j].forward_rows ? static_cast<i64>(p.jobs[j].volume) * *p.jobs[j].query_count : 0;
  });
  const i64 words = starts[p.job_count];
  JobWalk walk(starts);
  for (i64 i = grid_thread(S.threads); i < words; i += grid_threads(S.threads)) {
    const i32 j = walk.advance(i);
    p.jobs[j].rows[walk.inner(i)] = -1;
  }
}

}  // namespace minuet
