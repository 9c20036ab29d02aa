// The kernel search_cells computes masks[w][q], the bits of the offsets at which query q has a source. It
// looks them up in an index of the sources' cells (cell_index.h). If wanted, it adds the number of queries
// that have offset k to counts[k], and sets rows[k][q] to the source row of q + offset k, or to -1.
//
// Each thread handles one query. All threads of a warp process the same lines and count their hits by votes.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/votes.h"
#include "kernels_templates/map/cell_lines.h"

namespace minuet {

/// Stores the rows of the offsets of several lines, beginning with offset `k`.
MINUET_DEVICE void store_rows(i32* rows, i64 queries, i64 q, i32 k, i32 several, i32 length,
                              const LineCells (&found)[kLinesAtOnce]) {
  i32* to = rows + k * queries + q;
  MINUET_UNROLL
  for (i32 u = 0; u < kLinesAtOnce; ++u) {
    i32 row = found[u].row;
    MINUET_UNROLL
    for (i32 i = 0; i < kLongestLine; ++i) {
      if (u >= several || i >= length) continue;
      *to = (found[u].bits >> i & 1u) != 0 ? row++ : -1;
      to += queries;
    }
  }
}

template <SearchCellsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads,
                                   kLineThreads<S.ndim> /
                                       S.threads) void search_cells(MINUET_PARAMS(SearchCellsParams) p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  static_assert(S.threads % 32 == 0, "whole warps vote");
  __shared__ CellLines<S.ndim> lines;
  __shared__ u32 counts[kMostLines * kLongestLine];
  u32 number = 0, begin = 0;
  while (blockIdx.x >= p.searches[number].end_block) begin = p.searches[number++].end_block;
  const CellSearch& search = p.searches[number];
  const i64 queries = *search.query_count;
  const i64 lane = threadIdx.x & 31u, stride = static_cast<i64>(search.end_block - begin) * S.threads;
  const i64 first_query = static_cast<i64>(blockIdx.x - begin) * S.threads + threadIdx.x;
  // A cloud with too many cells has no queries. Its grids are not valid, so its blocks return before they use
  // them.
  if (first_query - threadIdx.x >= queries) return;
  for (i32 first = 0; first == 0 || first < lines.count; first += kMostLines) {
    make_lines<S.ndim, S.threads>(lines, search.geometry, p.index, search.source_level, *p.layout, first);
    const i32 here = stored_line_count(lines), length = lines.length, offsets = here * length;
    for (i32 k = static_cast<i32>(threadIdx.x); k < offsets; k += S.threads) counts[k] = 0;
    __syncthreads();
    // All lanes of a warp must vote, including those past the last query.
    for (i64 q = first_query; q - lane < queries; q += stride) {
      const bool is_query = q < queries;
      const i64 center =
          is_query ? cell_of_key(lines, fresh(static_cast<const Key*>(search.query_keys) + q)) : 0;
      // The mask has the bits of the offsets from mask word `word` on, counted from the first stored line.
      u64 mask = 0;
      i32 word = 0, bits = 0;
      MINUET_NO_UNROLL
      for (i32 line = 0; line < here; line += kLinesAtOnce) {
        LineCells found[kLinesAtOnce];
        const i32 several = lines_together(lines, line);
        find_several(p.index, lines, line, is_query ? (1u << several * length) - 1u : 0u, center, found);
        if (search.rows != nullptr && is_query)
          store_rows(search.rows, queries, q, (first + line) * length, several, length, found);
        mask |= static_cast<u64>(bits_of(found, length)) << bits;
        bits += several * length;
        const bool is_last = line + kLinesAtOnce >= here;
        MINUET_NO_UNROLL
        for (; bits >= kWordBits || (is_last && bits > 0); mask >>= kWordBits, bits -= kWordBits, ++word) {
          const u32 of_word = static_cast<u32>(mask), hits = count_votes(of_word);
          if (is_query) search.masks[(first * length / kWordBits + word) * queries + q] = of_word;
          if (hits != 0) atomicAdd(counts + word * kWordBits + lane, hits);
        }
      }
    }
    __syncthreads();
    for (i32 k = static_cast<i32>(threadIdx.x); k < offsets; k += S.threads) {
      if (search.counts != nullptr && counts[k] != 0)
        atomicAdd(search.counts + first * length + k, counts[k]);
    }
  }
}

}  // namespace minuet
