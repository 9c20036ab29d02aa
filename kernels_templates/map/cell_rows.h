// From cells to rows: look-ups in a finished index.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/shared/cell_index.h"

namespace minuet {

/// Ones of a word below bit `bit`.
MINUET_DEVICE i32 ones_below(u32 word, i32 bit) { return __popc(word & ((1u << bit) - 1u)); }

/// Where the bit of a cell's run is.
struct RunPlace {
  i64 word;
  i32 bit;
};
MINUET_HD constexpr RunPlace run_place(const CellGrid& grid, i64 cell) {
  const i64 run = cell / kRunCells;
  return {grid.first_word + run / kWordBits, static_cast<i32>(run % kWordBits)};
}

/// The word in CellIndex::cells that has a cell of an occupied run; `occupied`: the word of its run.
MINUET_DEVICE i64 cell_word(const CellIndex& index, const RunPlace& place, u32 occupied, i64 cell) {
  const i64 run = read_only(index.runs_before + place.word) + ones_below(occupied, place.bit);
  return run * kRunWords + cell / kWordBits % kRunWords;
}

/// Coordinates of the levels before the one whose first word this is.
MINUET_DEVICE i32 rows_before_level(const CellIndex& index, i32 first_word) {
  return read_only(index.rows_before + i64{kRunWords} * read_only(index.runs_before + first_word));
}

/// Rows of cells of one level, quickly where they are asked for in turn.
class CellRows {
 public:
  MINUET_DEVICE CellRows(const CellIndex& index, const CellGrid& grid)
      : index_(index), grid_(grid), before_(rows_before_level(index, grid.first_word)) {}

  /// -1 where the cell has no coordinate.
  MINUET_DEVICE i32 find(i64 cell) {
    const i64 word = cell / kWordBits;
    if (word != word_) load(word, cell);
    const i32 bit = static_cast<i32>(cell % kWordBits);
    return (cells_ >> bit & 1u) != 0 ? row_ + ones_below(cells_, bit) : -1;
  }

 private:
  MINUET_DEVICE void load(i64 word, i64 cell) {
    word_ = word;
    cells_ = 0;
    const RunPlace place = run_place(grid_, cell);
    const u32 occupied = read_only(index_.occupied + place.word);
    if ((occupied >> place.bit & 1u) == 0) return;
    const i64 at = cell_word(index_, place, occupied, cell);
    cells_ = read_only(index_.cells + at);
    row_ = read_only(index_.rows_before + at) - before_;
  }

  const CellIndex& index_;
  const CellGrid& grid_;
  const i32 before_;
  i64 word_ = -1;  // of 32 cells, that the next two are of
  u32 cells_ = 0;
  i32 row_ = 0;  // of the word's first coordinate
};

}  // namespace minuet
