// From cells to rows: look-ups in a finished index.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/cell_index.h"

namespace minuet {

/// Ones of a word below bit `bit`.
MINUET_DEVICE i32 ones_below(u32 word, i32 bit) { return __popc(word & ((1u << bit) - 1u)); }

/// Where the bit of a cell's run is. Cells are not negative: they divide as unsigned numbers, which is
/// cheaper.
struct RunPlace {
  i64 word;
  i32 bit;
};
MINUET_HD constexpr RunPlace run_place(const CellGrid& grid, i64 cell) {
  const u32 run = static_cast<u32>(static_cast<u64>(cell) / kRunCells);
  return {grid.first_word + i64{run / kWordBits}, static_cast<i32>(run % kWordBits)};
}
/// Of 32 cells, those of one word of CellIndex::cells.
MINUET_HD constexpr u32 word_of(i64 cell) { return static_cast<u32>(static_cast<u64>(cell) / kWordBits); }
MINUET_HD constexpr i32 bit_of(i64 cell) { return static_cast<i32>(static_cast<u32>(cell) % kWordBits); }

/// The word in CellIndex::cells that has a cell of an occupied run: `occupied` and `runs_before` of the word
/// of its run.
MINUET_DEVICE i64 cell_word(const RunPlace& place, u32 occupied, i32 runs_before, i64 cell) {
  const i64 run = runs_before + ones_below(occupied, place.bit);
  return run * kRunWords + word_of(cell) % kRunWords;
}

/// Coordinates of the levels before the one whose first word this is.
MINUET_DEVICE i32 rows_before_level(const CellIndex& index, i32 first_word) {
  return read_only(index.rows_before + i64{kRunWords} * read_only(index.runs_before + first_word));
}

/// rows[u] = the row of a cell, -1 where it has no coordinate, or where `asks` does not hold; `before`:
/// rows_before_level().
///
/// All loads of a kind are under way together. A word is loaded once for cells in turn that lie in it.
template <i32 Count>
MINUET_DEVICE void find_rows(const CellIndex& index, const CellGrid& grid, i32 before, bool asks,
                             const i64 (&cells)[Count], i32 (&rows)[Count]) {
  bool loads[Count];
  i32 occupied[Count], runs[Count];
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u) {
    loads[u] = asks && (u == 0 || word_of(cells[u]) != word_of(cells[u > 0 ? u - 1 : 0]));
    const i64 word = run_place(grid, cells[u]).word;
    occupied[u] = load_row_if(loads[u], reinterpret_cast<const i32*>(index.occupied) + word);
    runs[u] = load_row_if(loads[u], index.runs_before + word);
  }
  i32 words[Count], firsts[Count];
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u) {
    const RunPlace place = run_place(grid, cells[u]);
    const u32 of_runs = static_cast<u32>(occupied[u]);
    const bool there = loads[u] && (of_runs >> place.bit & 1u) != 0;
    const i64 at = cell_word(place, of_runs, runs[u], cells[u]);
    words[u] = load_row_if(there, reinterpret_cast<const i32*>(index.cells) + at);
    firsts[u] = load_row_if(there, index.rows_before + at);
    if (!there) words[u] = 0;
  }
  u32 word = 0;
  i32 first = 0;
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u) {
    if (loads[u]) word = static_cast<u32>(words[u]), first = firsts[u] - before;
    const i32 bit = bit_of(cells[u]);
    rows[u] = (word >> bit & 1u) != 0 ? first + ones_below(word, bit) : -1;
  }
}

}  // namespace minuet
