// keys[i] = rank_mask(q) with the view's number above it, queries[i] = q: sorted by them, each view's queries
// lie together, those of like masks near each other, and those with all neighbours come first. One thread a
// query, which makes its mask where that is not there.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/view_rows.h"
#include "kernels_templates/map/parent_offset.h"

namespace minuet {

template <RankMasksSpec S>
MINUET_DEVICE void make_query_mask(const ViewJob& job, const KeyLayout& layout, i64 q, i64 queries) {
  using Key = typename KeyOf<S.key>::Type;
  if (job.source == RowSource::Parents) {
    const Key key = fresh(static_cast<const Key*>(job.query_keys) + q);
    job.masks[q] = 1u << parent_offset<S.ndim>(layout, job.geometry, key);
    return;
  }
  for (i32 word = 0; word < mask_words(job.geometry.volume); ++word) {
    job.masks[word * queries + q] = mask_word(rows_of(job), q, word);
  }
}

template <RankMasksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void rank_masks(const ViewsParams p) {
  follow_last_launch();
  __shared__ i64 starts[kMostViews + 1];
  find_starts<S.threads, kMostViews>(
      starts, p.job_count, [&](i32 j) -> i64 { return p.jobs[j].order ? *p.jobs[j].query_count : 0; });
  const i64 all = starts[p.job_count], first = grid_thread(S.threads), stride = grid_threads(S.threads);
  if (first == 0) *p.key_count = static_cast<i32>(all);
  for (i64 i = first; i < p.sort_state_words; i += stride) p.sort_state[i] = 0;
  const KeyLayout layout = p.layout != nullptr ? with_ndim<S.ndim>(p.layout->keys) : KeyLayout{};
  JobWalk walk(starts);
  for (i64 i = first; i < all; i += stride) {
    const i32 j = walk.advance(i);
    const ViewJob& job = p.jobs[j];
    const i64 q = walk.inner(i), queries = *job.query_count;
    if (!job.has_masks) make_query_mask<S>(job, layout, q, queries);
    const u32 rank = rank_mask(job.masks, queries, q, job.geometry.volume, job.offsets, job.ranked);
    p.keys[i] = static_cast<u32>(j) << p.rank_bits | rank;
    p.queries[i] = static_cast<u32>(q);
  }
}

}  // namespace minuet
