// One pass over a cloud's coordinates: marks their runs, or their cells, in the index of all levels, or takes
// the sets from it (cell_index.h). One thread a coordinate.
//
// Several coordinates of a cell write the same to a set; which of them its row came from is the least, so
// that nothing depends on the order in which threads run. Coordinates that lie beside each other are often
// near each other: a lane leaves a cell that the lane before it has too to that one.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/cell_rows.h"
#include "kernels_templates/map/field_inside.h"

namespace minuet {

/// Or-s a bit into a word, unless it is there already: many coordinates have the cells of a coarse level.
MINUET_DEVICE void set_bit(u32* word, i32 bit) {
  const u32 seen = *static_cast<const volatile u32*>(word);
  if ((seen >> bit & 1u) == 0) atomicOr(word, 1u << bit);
}

/// The key of the coordinate that level `grid` floors these fields to.
template <class Key, i32 Fields>
MINUET_DEVICE Key floored_key(const KeyLayout& layout, const CellGrid& grid, const u64* fields) {
  u64 key = fields[0] << layout.shift[0];
  MINUET_UNROLL
  for (i32 f = 1; f < Fields; ++f) {
    const u64 floored = divide_field(fields[f], grid.stride[f]) * static_cast<u64>(grid.stride[f]);
    key |= floored << layout.shift[f];
  }
  return static_cast<Key>(key);
}

/// What the counts of a finished index say: rows of every level, and whether they fit.
template <IndexCellsSpec S>
MINUET_DEVICE void report_rows(const IndexCellsParams& p, i32 level, i64 points) {
  const CellGrids& grids = *p.index.grids;
  const i32 end = level + 1 < p.levels ? grids.levels[level + 1].first_word : grids.words;
  const i32 rows =
      rows_before_level(p.index, end) - rows_before_level(p.index, grids.levels[level].first_word);
  const IndexedSet& set = p.sets[level];
  const bool fits = rows <= set.capacity;
  *set.count = fits ? rows : static_cast<i32>(set.capacity);
  const u32 status =
      (fits ? 0 : kStatusPastCapacity) | (level == 0 && rows < points ? p.duplicate_status : 0);
  if (status != 0) atomicOr(p.status, status);
}

template <IndexCellsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void index_cells(const IndexCellsParams p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  static_assert(S.threads % 32 == 0, "whole warps compare");
  constexpr i32 kFields = S.ndim + 1;
  const CloudLayout& cloud = *p.layout;
  const KeyLayout layout = with_ndim<S.ndim>(cloud.keys);
  const CellGrids& grids = *p.index.grids;
  const i64 points = *p.points;
  if (blockIdx.x == 0) {
    if (S.step == IndexStep::Cells && threadIdx.x == 0) {
      p.index.grids->runs = p.index.runs[grids.words].before;
    }
    if (S.step == IndexStep::Rows && static_cast<i32>(threadIdx.x) < p.levels) {
      report_rows<S>(p, static_cast<i32>(threadIdx.x), points);
    }
  }
  // All lanes of a warp go on together: those past the last coordinate have that one again.
  const i64 lane = threadIdx.x & 31u;
  for (i64 first = grid_thread(S.threads) - lane; first < points; first += grid_threads(S.threads)) {
    const i64 i = first + lane < points ? first + lane : points - 1;
    u64 fields[kFields];
    u32 status = 0;
    MINUET_UNROLL
    for (i32 f = 0; f < kFields; ++f) {
      fields[f] =
          static_cast<u64>(field_inside(cloud, p.coordinates + i * kFields, f, status) - layout.bias[f]);
    }
    if (S.step == IndexStep::Runs && status != 0) atomicOr(p.status, status);
    for (i32 l = 0; l < p.levels; ++l) {
      const CellGrid& grid = grids.levels[l];
      const i64 cell = cell_of(grid, fields, kFields);
      const bool is_same = __shfl_up_sync(~0u, cell, 1) == cell && lane != 0;
      // A row of level 0 is each coordinate's own.
      if (is_same && (S.step != IndexStep::Rows || l != 0)) continue;
      if constexpr (S.step == IndexStep::Runs) {
        const RunPlace place = run_place(grid, cell);
        set_bit(&p.index.runs[place.word].bits, place.bit);
      } else if constexpr (S.step == IndexStep::Cells) {
        const RunPlace place = run_place(grid, cell);
        const BitWord runs = load_bits_if(true, p.index.runs, place.word);
        set_bit(&p.index.cells[cell_word(place, runs, cell)].bits, bit_of(cell));
      } else {
        const i64 cells[] = {cell};
        i32 rows[1];
        find_rows(p.index, grid, rows_before_level(p.index, grid.first_word), true, cells, rows);
        const i32 row = rows[0];
        if (row < p.sets[l].capacity) {
          static_cast<Key*>(p.sets[l].keys)[row] = floored_key<Key, kFields>(layout, grid, fields);
          if (l == 0) atomicMin(p.source_row + row, static_cast<i32>(i));
        }
        if (l == 0) p.row_of[i] = row;
      }
    }
  }
}

}  // namespace minuet
