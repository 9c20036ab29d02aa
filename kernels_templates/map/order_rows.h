// order[i] = the query that the sort put in place i of its view; ordered_rows[k][i] = rows[k][order[i]], both
// by the names of the job, and the masks' words, which the rows tell. One thread a place. Rows that lie by
// query are brought in by whole warps, which read them as they lie: 32 words of 32 queries at a time.
#pragma once

#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/view_rows.h"

namespace minuet {

constexpr i32 kOrderedWords = 32;  // of a query that are under way together

/// Those of 32 queries, each followed by a word of nothing, so that a column lies in as many banks.
using OrderTile = i32[32][kOrderedWords + 1];

/// From `first` on, of each lane's query. For whole warps.
MINUET_DEVICE void load_tile(const ViewRows& rows, u32 query, i32 first, OrderTile& tile) {
  constexpr i32 kMostVectors = kOrderedWords / 4;
  const i32 lane = static_cast<i32>(threadIdx.x % 32);
  const i32 left = static_cast<i32>(query_words(rows.volume) - first) / 4;
  const i32 vectors = left < kMostVectors ? left : kMostVectors;
  const i32 shift = vectors > 4 ? 3 : vectors > 2 ? 2 : vectors - 1;  // of the lanes that share a query
  const i32 lanes = 1 << shift, vector = lane % lanes;
  Vector<16> found[kMostVectors];
  MINUET_UNROLL
  for (i32 turn = 0; turn < kMostVectors; ++turn) {
    if (turn >= lanes) break;
    const i32 number = turn * (32 >> shift) + (lane >> shift);
    const i64 of = __shfl_sync(~0u, query, number);
    found[turn] = load_vector_if<16>(vector < vectors, rows.rows,
                                     4 * (of * query_words(rows.volume) + first + 4 * vector));
  }
  __syncwarp();  // until the last tile is read
  MINUET_UNROLL
  for (i32 turn = 0; turn < kMostVectors; ++turn) {
    if (turn >= lanes) break;
    i32* to = tile[turn * (32 >> shift) + (lane >> shift)] + 4 * vector;
    MINUET_UNROLL
    for (i32 w = 0; w < 4; ++w) to[w] = static_cast<i32>(found[turn].words[w]);
  }
  __syncwarp();
}

/// What a thread writes of its query: `Count` rows from `first` on, of which those past the last offset are
/// anything. The bits of those that are there.
template <i32 Count>
MINUET_DEVICE u32 put_rows(const ViewJob& job, i64 place, i32 first, i32 (&found)[Count]) {
  const u32 bits = bits_of(found, first, job.volume);
  i32* to = job.ordered_rows + first * job.ordered_stride + place;
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u, to += job.ordered_stride) {
    if (first + u >= job.volume) break;
    *to = job.row_names ? load_row_if(bits >> u & 1u, job.row_names + found[u]) : found[u];
  }
  return bits;
}

template <OrderRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void order_rows(const ViewsParams p) {
  constexpr i32 kAtOnce = 16;  // rows of a query that are under way together
  __shared__ i64 starts[kMostViews + 1];
  __shared__ OrderTile tiles[S.threads / 32];
  find_starts<S.threads, kMostViews>(
      starts, p.job_count, [&](i32 j) -> i64 { return p.jobs[j].order ? *p.jobs[j].query_count : 0; });
  const i64 all = starts[p.job_count];
  const i32 lane = static_cast<i32>(threadIdx.x % 32);
  OrderTile& tile = tiles[threadIdx.x / 32];
  JobWalk walk(starts);
  for (i64 base = grid_thread(S.threads) - lane; base < all; base += grid_threads(S.threads)) {
    const i64 i = base + lane < all ? base + lane : base;  // a lane past the end does what the first one does
    const i32 number = walk.advance(i);
    const ViewJob& job = p.jobs[number];
    const i64 place = walk.inner(i);
    const u32 query = read_only(p.sorted + i);
    const ViewRows rows = rows_of(job);
    const bool whole = __all_sync(~0u, number == __shfl_sync(~0u, number, 0)) && rows.by_query;
    job.order[place] = job.query_names ? read_only(job.query_names + query) : static_cast<i32>(query);
    u32 mask = 0;
    for (i32 first = 0; first < rows.volume; first += kAtOnce) {
      i32 found[kAtOnce];
      if (whole) {
        if (first % kOrderedWords == 0) load_tile(rows, query, first, tile);
        MINUET_UNROLL
        for (i32 u = 0; u < kAtOnce; ++u) found[u] = tile[lane][first % kOrderedWords + u];
      } else {
        rows.load(query, first, found);
      }
      mask |= put_rows(job, place, first, found) << first % 32;
      if (first % 32 + kAtOnce < 32 && first + kAtOnce < rows.volume) continue;
      job.ordered_masks[first / 32 * job.ordered_stride + place] = mask;
      mask = 0;
    }
  }
}

}  // namespace minuet
