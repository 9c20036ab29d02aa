// From cells to rows: look-ups in a finished index.
#pragma once

#include "kernels_templates/core/programmatic.h"
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

/// The word in CellIndex::cells that has a cell of an occupied run; `runs`: the word of the run.
MINUET_DEVICE i64 cell_word(const RunPlace& place, const BitWord& runs, i64 cell) {
  const i64 run = runs.before + ones_below(runs.bits, place.bit);
  return run * kRunWords + word_of(cell) % kRunWords;
}

/// words[at], which the kernel does not write, in one access; zeros where it is not `present`.
MINUET_DEVICE BitWord load_bits_if(bool present, const BitWord* words, i64 at) {
  const Vector<8> found = load_vector_if<8, true>(present, words, at * 8);
  return {found.words[0], static_cast<i32>(found.words[1])};
}

/// Coordinates of the levels before the one whose first word this is.
MINUET_DEVICE i32 rows_before_level(const CellIndex& index, i32 first_word) {
  return fresh(&index.cells[i64{kRunWords} * fresh(&index.runs[first_word].before)].before);
}

/// rows[u] = the row of a cell, -1 where it has no coordinate, or where `asks` does not hold; `before`:
/// rows_before_level().
///
/// All loads of a kind are under way together. A word is loaded once for cells in turn that lie in it.
template <i32 Count>
MINUET_DEVICE void find_rows(const CellIndex& index, const CellGrid& grid, i32 before, bool asks,
                             const i64 (&cells)[Count], i32 (&rows)[Count]) {
  bool loads[Count];
  BitWord runs[Count];
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u) {
    loads[u] = asks && (u == 0 || word_of(cells[u]) != word_of(cells[u > 0 ? u - 1 : 0]));
    runs[u] = load_bits_if(loads[u], index.runs, run_place(grid, cells[u]).word);
  }
  BitWord words[Count];
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u) {
    const RunPlace place = run_place(grid, cells[u]);
    const bool there = (runs[u].bits >> place.bit & 1u) != 0;
    words[u] = load_bits_if(there, index.cells, cell_word(place, runs[u], cells[u]));
  }
  BitWord word = {};
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u) {
    if (loads[u]) word = words[u];
    const i32 bit = bit_of(cells[u]);
    rows[u] = (word.bits >> bit & 1u) != 0 ? word.before - before + ones_below(word.bits, bit) : -1;
  }
}

}  // namespace minuet
