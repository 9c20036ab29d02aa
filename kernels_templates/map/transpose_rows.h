// rows[k][forward_rows[k][q]] = q in every transposed view. One thread a query: no source has two queries at
// one offset.
#pragma once

#include "kernels_templates/core/jobs.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

template <TransposeRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void transpose_rows(const ViewsParams p) {
  __shared__ i64 starts[kMostViews + 1];
  find_starts<S.threads, kMostViews>(starts, p.job_count, [&](i32 j) -> i64 {
    return p.jobs[j].forward_rows ? *p.jobs[j].forward_count : 0;
  });
  const i64 all = starts[p.job_count];
  JobWalk walk(starts);
  for (i64 i = grid_thread(S.threads); i < all; i += grid_threads(S.threads)) {
    const i32 j = walk.advance(i);
    const i64 query = walk.inner(i), queries = *p.jobs[j].forward_count, sources = *p.jobs[j].query_count;
    for (i32 k = 0; k < p.jobs[j].volume; ++k) {
      const i32 source = read_only(p.jobs[j].forward_rows + k * queries + query);
      if (source >= 0) p.jobs[j].rows[k * sources + source] = static_cast<i32>(query);
    }
  }
}

}  // namespace minuet
