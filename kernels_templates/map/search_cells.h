// map[k][q] = the source row of q + offset k, or -1, by an index of the sources' cells (cell_index.h); the
// masks of the queries and the counts of the offsets with it.
//
// One thread a query, which looks several cells up at once. The offsets are walked with the last axis
// fastest, along which cells lie beside each other: most look-ups share a word with the one before. All
// threads of a warp are at the same offsets, whose hits they count by vote.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/view_rows.h"
#include "kernels_templates/core/votes.h"
#include "kernels_templates/map/cell_rows.h"

namespace minuet {

/// Offset k of a kernel in cells of a level.
template <i32 Ndim>
MINUET_DEVICE i64 offset_cells(const KernelGeometry& geometry, const CellGrid& grid, i32 k) {
  i64 cells = 0;
  MINUET_UNROLL
  for (i32 a = Ndim - 1; a >= 0; --a) {
    const i32 step = geometry.step[a] / grid.stride[a + 1];
    cells += axis_offset(geometry.kernel_size[a], step, k % geometry.kernel_size[a]) * grid.weight[a + 1];
    k /= geometry.kernel_size[a];
  }
  return cells;
}

/// Fields of the query's key.
template <i32 Ndim, class Key>
MINUET_DEVICE i64 cell_of_key(const KeyLayout& layout, const CellGrid& grid, Key key) {
  u64 fields[Ndim + 1];
  MINUET_UNROLL
  for (i32 f = 0; f <= Ndim; ++f) fields[f] = key_field(layout, key, f);
  return cell_of(grid, fields, Ndim + 1);
}

/// Rows of a query from offset `first` on, by whole vectors.
template <i32 Count>
MINUET_DEVICE void store_by_query(const CellSearch& search, i64 q, i32 first, bool asks,
                                  const i32 (&rows)[Count]) {
  const i64 start = q * query_words(search.geometry.volume) + first;
  MINUET_UNROLL
  for (i32 u = 0; u < Count; u += 4) {
    Vector<16> four;
    MINUET_UNROLL
    for (i32 w = 0; w < 4; ++w) four.words[w] = static_cast<u32>(rows[u + w]);
    if (asks && first + u < search.geometry.volume) store_vector<16>(search.rows, 4 * (start + u), four);
  }
}

template <SearchCellsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void search_cells(const SearchCellsParams p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  static_assert(S.threads % 32 == 0, "whole warps vote");
  constexpr i32 kMostOffsets = 128;  // of one walk over the queries: whole words of masks
  constexpr i32 kAtOnce = 8;         // cells
  __shared__ i64 cells_to[kMostOffsets];
  __shared__ u32 counts[kMostOffsets];
  const CellSearch& search = p.searches[blockIdx.x / static_cast<u32>(p.blocks)];
  const KeyLayout layout = with_ndim<S.ndim>(p.layout->keys);
  const CellGrid grid = p.index.grids->levels[search.source_level];
  const i64 queries = *search.query_count;
  const i64 lane = threadIdx.x & 31u, stride = static_cast<i64>(p.blocks) * S.threads;
  const i64 first_query = grid_thread(S.threads) % stride;
  // Of a cloud that has too many cells there are no queries, and no grid.
  if (first_query - threadIdx.x >= queries) return;
  const i32 before = rows_before_level(p.index, grid.first_word);
  for (i32 first = 0; first < search.geometry.volume; first += kMostOffsets) {
    const i32 left = search.geometry.volume - first, offsets = left < kMostOffsets ? left : kMostOffsets;
    for (i32 k = threadIdx.x; k < kMostOffsets; k += S.threads) {
      // Those past the last offset are the last one's again, whose word is loaded.
      cells_to[k] = offset_cells<S.ndim>(search.geometry, grid, first + (k < offsets ? k : offsets - 1));
      counts[k] = 0;
    }
    __syncthreads();
    // All lanes of a warp go on together: those past the last query vote too.
    for (i64 q = first_query; q - lane < queries; q += stride) {
      const bool asks = q < queries;
      const i64 center =
          asks ? cell_of_key<S.ndim>(layout, grid, fresh(static_cast<const Key*>(search.query_keys) + q)) : 0;
      for (i32 word = 0; word < offsets; word += kWordBits) {
        u32 mask = 0;
        for (i32 k = word; k < offsets && k < word + kWordBits; k += kAtOnce) {
          i64 cells[kAtOnce];
          i32 rows[kAtOnce];
          MINUET_UNROLL
          for (i32 u = 0; u < kAtOnce; ++u) cells[u] = center + cells_to[k + u];
          find_rows(p.index, grid, before, asks, cells, rows);
          if (search.by_query) {
            store_by_query(search, q, first + k, asks, rows);
          } else {
            i32* to = search.rows + (first + k) * queries + q;
            MINUET_UNROLL
            for (i32 u = 0; u < kAtOnce; ++u, to += queries) {
              if (asks && k + u < offsets) *to = rows[u];
            }
          }
          mask |= bits_of(rows, k, offsets) << (k - word);
        }
        if (asks) search.masks[(first + word) / kWordBits * queries + q] = mask;
        const u32 hits = count_votes(mask);
        if (hits != 0) atomicAdd(counts + word + lane, hits);
      }
    }
    __syncthreads();
    for (i32 k = threadIdx.x; k < offsets; k += S.threads) {
      if (counts[k] != 0) atomicAdd(search.counts + first + k, counts[k]);
    }
    __syncthreads();
  }
}

}  // namespace minuet
