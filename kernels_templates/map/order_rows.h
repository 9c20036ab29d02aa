// For each view (ViewJob), the kernel order_rows writes order[i], the query that the sort put in place i. It
// sets ordered_rows[k][i] = rows[k][order[i]] if a place of the same group of kPositionGroup places has a row
// at offset k. In these two arrays it replaces queries and rows by the job's query_ids and row_ids. It also
// writes the ordered masks, and the union of the masks of each 32 places. Each thread handles one place. The
// views' rows must be in a table.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/ordered_places.h"
#include "kernels_templates/core/programmatic.h"

namespace minuet {

template <OrderRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void order_rows(MINUET_PARAMS(ViewsParams) p) {
  follow_last_launch();
  constexpr i32 kAtOnce = 8;  // Gives the number of rows of a query that are loaded together.
  __shared__ ViewStarts starts;
  find_view_starts<S.threads, false>(starts, p,
                                     [](const ViewJob& job) { return job.source == RowSource::Table; });
  JobIterator walk(starts.blocks);
  OrderedMasks<S.threads> masks;
  for (i64 block = blockIdx.x; block < starts.blocks[p.job_count]; block += gridDim.x) {
    const i32 j = walk.advance(block);
    const ViewJob& job = p.jobs[j];
    const OrderedPlace at = find_place(job, p.sorted + starts.queries[j], walk.inner(block) * S.threads);
    const i64 queries = *job.query_count;
    for (i32 word = 0; word < mask_words(job.geometry.volume); ++word) {
      const auto mask = masks.put(job, at, word);
      const i32* const from = job.rows + word * 32 * queries + at.query;
      i32* const to = job.ordered_rows + word * 32 * job.ordered_stride + at.place;
      for (u32 left = mask.union_bits; left != 0;) {
        i32 offsets[kAtOnce], found[kAtOnce];
        MINUET_UNROLL
        for (i32 u = 0; u < kAtOnce; ++u, left &= left - 1) {
          offsets[u] = left != 0 ? lowest_bit(left) : -1;
          const bool is_row = left != 0 && (mask.own >> offsets[u] & 1u) != 0;
          found[u] = load_row_if<true>(is_row, from + offsets[u] * queries);
        }
        if (job.row_ids) name_rows(job.row_ids, found);
        MINUET_UNROLL
        for (i32 u = 0; u < kAtOnce; ++u) {
          if (at.is_there && offsets[u] >= 0) to[offsets[u] * job.ordered_stride] = found[u];
        }
      }
    }
  }
}

}  // namespace minuet
