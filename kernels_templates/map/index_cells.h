// The kernel index_cells makes one pass over a cloud's coordinates, with one thread per coordinate. Depending
// on IndexStep, it marks their runs or their cells in the index of all levels, or writes the coordinate sets
// from the index (cell_index.h).
//
// If several coordinates are in one cell, the thread that marked the cell writes the cell's key to the set,
// and source_row gets the lowest row. Results therefore do not depend on the order of threads. Among the
// lanes of a warp with the same run, only the first marks it, because a coarse level has few run words, and
// atomics on one word are serialised. A cell is marked by the first of adjacent lanes with the same cell.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/map/cell_rows.h"
#include "kernels_templates/map/field_inside.h"

namespace minuet {

/// Gives the number of levels whose words are loaded together.
constexpr i32 kLevelsAtOnce = 4;

/// Sets a bit of a word, unless `seen`, an earlier value of the word, already has the bit. This is common for
/// the cells of coarse levels. Returns true if this thread was the first to set the bit.
MINUET_DEVICE bool set_bit(u32* word, u32 seen, i32 bit) {
  const u32 mask = 1u << bit;
  return (seen & mask) == 0 && (atomicOr(word, mask) & mask) == 0;
}

/// Returns the key of a coordinate rounded down to the strides of `grid`. `fields` holds the coordinate's key
/// fields.
template <class Key, i32 Fields>
MINUET_DEVICE Key floored_key(const KeyLayout& layout, const CellGrid& grid, const u32* fields) {
  u64 key = u64{fields[0]} << layout.shift[0];
  MINUET_UNROLL
  for (i32 f = 1; f < Fields; ++f) {
    const u32 floored = strides_of(grid, fields[f], f) * static_cast<u32>(grid.stride[f]);
    key |= u64{floored} << layout.shift[f];
  }
  return static_cast<Key>(key);
}

/// Stores the number of rows of a level of a finished index, and for later searches the number of rows of all
/// levels before it. Sets the status if the rows exceed the capacity or if coordinates occur twice.
template <IndexCellsSpec S>
MINUET_DEVICE void report_rows(const IndexCellsParams& p, i32 level, i64 points) {
  const CellGrids& grids = *p.index.grids;
  const i32 end = level + 1 < p.levels ? grids.levels[level + 1].first_word : grids.words;
  const i32 before = rows_before_level(p.index, grids.levels[level].first_word);
  const i32 rows = rows_before_level(p.index, end) - before;
  p.index.grids->levels[level].before = before;
  const IndexedSet& set = p.sets[level];
  const bool fits = rows <= set.capacity;
  *set.count = fits ? rows : static_cast<i32>(set.capacity);
  const u32 status =
      (fits ? 0 : kStatusPastCapacity) | (level == 0 && rows < points ? p.duplicate_status : 0);
  if (status != 0) atomicOr(p.status, status);
}

/// Holds a block's copy of the grids of all levels.
struct IndexedLevels {
  CellGrid grids[kMostIndexedLevels];
};

template <IndexCellsSpec S>
MINUET_DEVICE void find_levels(const IndexCellsParams& p, IndexedLevels& levels) {
  const i32 level = static_cast<i32>(threadIdx.x);
  if (level < p.levels) {
    levels.grids[level] = p.index.grids->levels[level];
    if constexpr (S.step == IndexStep::Rows)
      levels.grids[level].before = rows_before_level(p.index, levels.grids[level].first_word);
  }
  __syncthreads();
}

/// Processes one coordinate in several levels. cells[u] is its cell of level `first` + u, which is used if
/// asks[u]. Bit l of `marked` means that the coordinate was the first to mark its cell of level l.
template <IndexCellsSpec S>
MINUET_DEVICE void index_levels(const IndexCellsParams& p, const IndexedLevels& levels,
                                const KeyLayout& layout, const u32* fields, i64 point, i32 first,
                                const i64 (&cells)[kLevelsAtOnce], const bool (&asks)[kLevelsAtOnce],
                                u32& marked) {
  using Key = typename KeyOf<S.key>::Type;
  BitWord runs[kLevelsAtOnce];
  MINUET_UNROLL
  for (i32 u = 0; u < kLevelsAtOnce; ++u) {
    const RunPlace place = run_place(levels.grids[first + u], cells[u]);
    runs[u] = load_bits_if(asks[u], p.index.runs, place.word);
  }
  BitWord words[kLevelsAtOnce];
  u32 at[kLevelsAtOnce];
  MINUET_UNROLL
  for (i32 u = 0; u < kLevelsAtOnce; ++u) {
    if constexpr (S.step == IndexStep::Runs) break;
    at[u] = cell_word(run_place(levels.grids[first + u], cells[u]), runs[u], cells[u]);
    words[u] = load_bits_if(asks[u], p.index.cells, at[u]);
  }
  MINUET_UNROLL
  for (i32 u = 0; u < kLevelsAtOnce; ++u) {
    if (!asks[u]) continue;
    const i32 level = first + u;
    const CellGrid& grid = levels.grids[level];
    if constexpr (S.step == IndexStep::Runs) {
      const RunPlace place = run_place(grid, cells[u]);
      set_bit(&p.index.runs[place.word].bits, runs[u].bits, place.bit);
    } else if constexpr (S.step == IndexStep::Cells) {
      if (set_bit(&p.index.cells[at[u]].bits, words[u].bits, bit_of(cells[u]))) marked |= 1u << level;
    } else {
      const i32 row = words[u].before - grid.before + ones_below(words[u].bits, bit_of(cells[u]));
      const bool fits = row < p.sets[level].capacity;
      if (fits && (marked >> level & 1u) != 0)
        static_cast<Key*>(p.sets[level].keys)[row] = floored_key<Key, S.ndim + 1>(layout, grid, fields);
      if (fits && level == 0) atomicMin(p.source_row + row, static_cast<i32>(point));
      if (level == 0) p.row_of[point] = row;
    }
  }
}

template <IndexCellsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void index_cells(MINUET_PARAMS(IndexCellsParams) p) {
  follow_last_launch();
  static_assert(S.threads % 32 == 0, "whole warps compare");
  static_assert(kMostIndexedLevels % kLevelsAtOnce == 0, "grids past the last level are read, and not used");
  constexpr i32 kFields = S.ndim + 1;
  __shared__ IndexedLevels levels;
  const CloudLayout& cloud = *p.layout;
  const KeyLayout layout = with_ndim<S.ndim>(cloud.keys);
  const i64 points = *p.points;
  if (blockIdx.x == 0) {
    if (S.step == IndexStep::Cells && threadIdx.x == 0) {
      p.index.grids->runs = p.index.runs[p.index.grids->words].before;
    }
    if (S.step == IndexStep::Rows && static_cast<i32>(threadIdx.x) < p.levels) {
      report_rows<S>(p, static_cast<i32>(threadIdx.x), points);
    }
  }
  // All lanes of a warp must take part in the exchanges below, so lanes past the last coordinate repeat it.
  const i64 lane = threadIdx.x & 31u;
  find_levels<S>(p, levels);
  for (i64 first = grid_thread(S.threads) - lane; first < points; first += grid_threads(S.threads)) {
    const bool is_point = first + lane < points;
    const i64 i = is_point ? first + lane : points - 1;
    u32 fields[kFields];
    u32 status = 0;
    MINUET_UNROLL
    for (i32 f = 0; f < kFields; ++f) {
      fields[f] =
          static_cast<u32>(field_inside(cloud, p.coordinates + i * kFields, f, status) - layout.bias[f]);
    }
    if (S.step == IndexStep::Runs && status != 0) atomicOr(p.status, status);
    // IndexStep::Cells stores the marked levels in row_of, and IndexStep::Rows replaces them by the row.
    u32 marked = S.step == IndexStep::Rows && is_point ? static_cast<u32>(fresh(p.row_of + i)) : 0u;
    for (i32 l = 0; l < p.levels; l += kLevelsAtOnce) {
      i64 cells[kLevelsAtOnce];
      bool asks[kLevelsAtOnce];
      MINUET_UNROLL
      for (i32 u = 0; u < kLevelsAtOnce; ++u) {
        const bool is_level = l + u < p.levels;
        cells[u] = is_level ? cell_of(levels.grids[l + u], fields, kFields) : 0;
        if constexpr (S.step == IndexStep::Rows) {
          // In level 0, each coordinate needs its row. In the other levels, only the one that marked the cell
          // does.
          asks[u] = is_point && (l + u == 0 || (marked >> (l + u) & 1u) != 0);
        } else {
          // A lane compares its cell only with that of the lane before it. Matching 64-bit numbers across the
          // whole warp would cost more than it saves.
          bool is_first = false;
          if constexpr (S.step == IndexStep::Runs) {
            is_first = lowest_bit(__match_any_sync(~0u, run_of(cells[u]))) == lane;
          } else {
            is_first = __shfl_up_sync(~0u, cells[u], 1) != cells[u] || lane == 0;
          }
          asks[u] = is_level && is_first;
        }
      }
      index_levels<S>(p, levels, layout, fields, i, l, cells, asks, marked);
    }
    if (S.step == IndexStep::Cells && is_point) p.row_of[i] = static_cast<i32>(marked);
  }
}

}  // namespace minuet
