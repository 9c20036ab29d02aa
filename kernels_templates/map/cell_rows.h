// This file finds the rows of cells in a finished index.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/cell_index.h"

namespace minuet {

/// Returns the number of set bits of a word below bit `bit`.
MINUET_DEVICE i32 ones_below(u32 word, i32 bit) { return __popc(word & ((1u << bit) - 1u)); }

/// Gives the position in CellIndex::runs of the bit of a cell's run. Cell numbers are not negative, so
/// run_of() divides them as unsigned numbers, which is cheaper.
struct RunPlace {
  u32 word;
  i32 bit;
};
MINUET_HD constexpr u32 run_of(i64 cell) { return static_cast<u32>(static_cast<u64>(cell) / kRunCells); }
MINUET_HD constexpr RunPlace run_place(const CellGrid& grid, i64 cell) {
  const u32 run = run_of(cell);
  return {static_cast<u32>(grid.first_word) + run / kWordBits, static_cast<i32>(run % kWordBits)};
}
/// Returns the number of the group of 32 cells that share one word of CellIndex::cells.
MINUET_HD constexpr u32 word_of(i64 cell) { return static_cast<u32>(static_cast<u64>(cell) / kWordBits); }
MINUET_HD constexpr i32 bit_of(i64 cell) { return static_cast<i32>(static_cast<u32>(cell) % kWordBits); }

/// Returns the index in CellIndex::cells of the word that holds a cell of an occupied run. `runs` is the word
/// that holds the run's bit.
MINUET_DEVICE u32 cell_word(const RunPlace& place, const BitWord& runs, i64 cell) {
  const i32 run = runs.before + ones_below(runs.bits, place.bit);
  return static_cast<u32>(run) * kRunWords + word_of(cell) % kRunWords;
}

/// Loads words[at] in one access if `present`, otherwise returns zeros. The load never uses the read-only
/// cache, because the kernel itself may set bits of the word. The result may lack bits that are being set,
/// but never has bits of an earlier cloud.
MINUET_DEVICE BitWord load_bits_if(bool present, const BitWord* words, u32 at) {
  const Vector<8> found = load_vector_if<8, true>(present, words, i64{at} * 8);
  return {found.words[0], static_cast<i32>(found.words[1])};
}
/// Loads only the bits of words[at] if `present`, otherwise returns 0.
MINUET_DEVICE u32 load_word_if(bool present, const BitWord* words, u32 at) {
  return load_vector_if<4, true>(present, words, i64{at} * 8).words[0];
}

/// Returns the number of coordinates of the levels before the one whose first word is `first_word`.
MINUET_DEVICE i32 rows_before_level(const CellIndex& index, i32 first_word) {
  return fresh(&index.cells[i64{kRunWords} * fresh(&index.runs[first_word].before)].before);
}

/// Returns the row of a cell, or -1 if the cell holds no coordinate or `asks` is false.
MINUET_DEVICE i32 find_row(const CellIndex& index, const CellGrid& grid, bool asks, i64 cell) {
  const RunPlace place = run_place(grid, cell);
  const BitWord runs = load_bits_if(asks, index.runs, place.word);
  const bool is_run = (runs.bits >> place.bit & 1u) != 0;
  const BitWord word = load_bits_if(is_run, index.cells, cell_word(place, runs, cell));
  const i32 bit = bit_of(cell);
  return (word.bits >> bit & 1u) != 0 ? word.before - grid.before + ones_below(word.bits, bit) : -1;
}

}  // namespace minuet
