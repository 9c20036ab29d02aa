// keys[i] = rank_mask(q) with the view's number above it, queries[i] = q: sorted by them, each view's queries
// lie together, those of like masks near each other, and those with all neighbours come first. One thread a
// query, which makes its mask where that is not there.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/view_rows.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

template <RankMasksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void rank_masks(const ViewsParams p) {
  follow_last_launch();
  __shared__ i64 starts[kMostViews + 1];
  find_starts<S.threads, kMostViews>(
      starts, p.job_count, [&](i32 j) -> i64 { return p.jobs[j].order ? *p.jobs[j].query_count : 0; });
  const i64 all = starts[p.job_count], first = grid_thread(S.threads), stride = grid_threads(S.threads);
  if (first == 0) *p.key_count = static_cast<i32>(all);
  for (i64 i = first; i < p.sort_state_words; i += stride) p.sort_state[i] = 0;
  JobWalk walk(starts);
  for (i64 i = first; i < all; i += stride) {
    const i32 j = walk.advance(i), volume = p.jobs[j].volume;
    const i64 q = walk.inner(i), queries = *p.jobs[j].query_count;
    for (i32 word = 0; word < mask_words(volume) && !p.jobs[j].has_masks; ++word) {
      p.jobs[j].masks[word * queries + q] = mask_word(rows_of(p.jobs[j]), q, word);
    }
    const u32 rank = rank_mask(p.jobs[j].masks, queries, q, volume, p.jobs[j].offsets, p.jobs[j].ranked);
    p.keys[i] = static_cast<u32>(j) << p.rank_bits | rank;
    p.queries[i] = static_cast<u32>(q);
  }
}

}  // namespace minuet
