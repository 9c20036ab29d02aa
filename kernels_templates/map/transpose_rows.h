// rows[k][forward_rows[k][q]] = q in every transposed view, however the two lie. One thread a query: no
// source has two queries at one offset.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/view_rows.h"

namespace minuet {

/// The rows, all of them, of a source that has one query.
MINUET_DEVICE void store_one_query(const ViewJob& job, i64 source, i32 k, i32 query) {
  const i64 words = query_words(job.volume);
  MINUET_NO_UNROLL
  for (i64 first = 0; first < words; first += 4) {
    Vector<16> four;
    MINUET_UNROLL
    for (i32 w = 0; w < 4; ++w) four.words[w] = first + w == k ? static_cast<u32>(query) : ~0u;
    store_vector<16>(job.rows, 4 * (source * words + first), four);
  }
}

template <TransposeRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void transpose_rows(const ViewsParams p) {
  follow_last_launch();
  constexpr i32 kAtOnce = 8;
  __shared__ i64 starts[kMostViews + 1];
  find_starts<S.threads, kMostViews>(starts, p.job_count, [&](i32 j) -> i64 {
    return p.jobs[j].forward_rows ? *p.jobs[j].forward_count : 0;
  });
  const i64 all = starts[p.job_count];
  JobWalk walk(starts);
  for (i64 i = grid_thread(S.threads); i < all; i += grid_threads(S.threads)) {
    const ViewJob& job = p.jobs[walk.advance(i)];
    const i64 query = walk.inner(i), sources = *job.query_count;
    const i64 of_source = job.by_query ? query_words(job.volume) : 1, of_offset = job.by_query ? 1 : sources;
    const ViewRows forward{job.forward_rows, *job.forward_count, job.volume, job.forward_by_query != 0};
    for (i32 first = 0; first < job.volume; first += kAtOnce) {
      i32 found[kAtOnce];
      forward.load(query, first, found);
      MINUET_UNROLL
      for (i32 u = 0; u < kAtOnce; ++u) {
        const i32 k = first + u;
        if (k >= job.volume || found[u] < 0) continue;
        if (job.one_query) {
          store_one_query(job, found[u], k, static_cast<i32>(query));
        } else {
          job.rows[found[u] * of_source + k * of_offset] = static_cast<i32>(query);
        }
      }
    }
  }
}

}  // namespace minuet
