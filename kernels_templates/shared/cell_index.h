// Coordinate sets by occupancy instead of by sorting: which cells of a cloud's extent hold a coordinate, and
// the rows of those.
//
// A level's cells are the coordinates of its stride inside the cloud's bounds and guards, numbered in the
// order of its keys: fields at the top first, the last axis fastest. 128 cells in turn are a run. One bit
// says whether a run has a coordinate at all; those that have one are numbered, and have a bit for each cell.
// Both kinds of bits are counted by scans, so that a cell's row is two look-ups away, and is the row that
// it would have in the sorted set. Several levels lie behind each other in one index.
#pragma once

#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

constexpr i32 kMostIndexedLevels = 16;
constexpr i32 kWordBits = 32;
constexpr i32 kRunWords = 4;  // words of cells in a run: sweeps have many empty runs, filled clouds none
constexpr i64 kRunCells = i64{kRunWords} * kWordBits;

constexpr i32 kMostIndexWords = 1 << 24;

/// The cells of one level.
struct CellGrid {
  i64 weight[kMaxFields];  // cells from one value of a field to the next
  i32 stride[kMaxFields];  // tensor stride; 1 for the batch
  i32 shift[kMaxFields];   // the power of two that the stride is, or -1
  i32 words;               // of the level's in CellIndex::runs; at most kMostIndexWords + 1
  i32 first_word;
  i32 before;  // rows of the levels before it; behind IndexStep::Rows, whose blocks find it for themselves
};
struct CellGrids {
  CellGrid levels[kMostIndexedLevels];
  i32 words = 0;  // of all levels
  i32 runs = 0;   // that have a coordinate
};

/// Device memory of the levels' index.
struct CellIndex {
  CellGrids* grids = nullptr;
  BitWord* runs = nullptr;   // [words + 1] bit r % 32 of word r / 32: run r has a coordinate
  BitWord* cells = nullptr;  // [runs * kRunWords + 1] of those that have one; ones are coordinates
};

struct LevelStrides {
  i32 axis[kMostIndexedLevels][kMaxDim];
};

/// Without its first word. Of fields of 32 bits alone; of wider ones there are too many cells.
MINUET_HD constexpr CellGrid make_cell_grid(const KeyLayout& layout, const i32* stride) {
  constexpr i64 kWordCells = kWordBits * kRunCells, kMostCells = kMostIndexWords * kWordCells;
  CellGrid grid{};
  i64 cells = 1;
  MINUET_UNROLL
  for (i32 f = layout.fields - 1; f >= 0; --f) {
    grid.stride[f] = f == 0 ? 1 : stride[f - 1];
    const i32 power = bit_width_of(static_cast<u64>(grid.stride[f])) - 1;
    grid.shift[f] = grid.stride[f] == 1 << power ? power : -1;
    grid.weight[f] = cells;
    const i64 values =
        (grid.shift[f] >= 0 ? layout.span[f] >> grid.shift[f] : layout.span[f] / grid.stride[f]) + 1;
    // Products that a double does not hold exactly are too large anyway; it is cheaper than to divide.
    const bool fits = layout.span[f] >> 32 == 0 && static_cast<double>(values) * static_cast<double>(cells) <=
                                                       static_cast<double>(kMostCells);
    cells = fits ? cells * values : kMostCells + 1;
  }
  grid.words = static_cast<i32>((cells + kWordCells - 1) / kWordCells);
  return grid;
}

/// A field in strides of the level. Most are powers of two, and a division is what indexing takes most time
/// for.
MINUET_HD constexpr u32 strides_of(const CellGrid& grid, u32 field, i32 f) {
  return grid.shift[f] >= 0 ? field >> grid.shift[f] : field / static_cast<u32>(grid.stride[f]);
}

/// The cell of a coordinate of the level, or of one that the level floors to it.
MINUET_HD constexpr i64 cell_of(const CellGrid& grid, const u32* fields, i32 count) {
  i64 cell = static_cast<i64>(fields[0]) * grid.weight[0];  // the batch, whose stride is 1
  MINUET_UNROLL
  for (i32 f = 1; f < count; ++f) {
    cell += static_cast<i64>(strides_of(grid, fields[f], f)) * grid.weight[f];
  }
  return cell;
}

/// Makes an index ready: its grids, no cell occupied.
struct ClearCellsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct ClearCellsParams {
  const CloudLayout* layout;  // device
  i32 levels;
  LevelStrides strides;
  i64 most_words;  // more set the status
  CellIndex index;
  i32* source_row;  // [most_rows] of level 0, to INT_MAX
  i64 most_rows;
  u32* status;  // bits are or-ed in
  i32* points;  // of a cloud that has too many cells: 0 from here on
};

/// What one pass over the coordinates adds to the index.
enum class IndexStep : i32 {
  Runs,   // the runs that have one
  Cells,  // the cells, once runs are counted; row_of keeps which ones a coordinate was the first to mark
  Rows,   // the sets, once cells are counted
};
struct IndexCellsSpec {
  IndexStep step = IndexStep::Runs;
  KeyType key = KeyType::U32;  // of Rows
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("step", step), visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct IndexedSet {
  void* keys;    // [capacity] ascending
  i32* count;    // out
  i64 capacity;  // more coordinates set the status, and none past it is written
};
struct IndexCellsParams {
  const i32* coordinates;     // [points, 1 + ndim]; outside of the layout's bounds they set the status
  const i32* points;          // device
  const CloudLayout* layout;  // device
  CellIndex index;
  i32 levels;
  u32* status;  // bits are or-ed in
  // Of Rows:
  u32 duplicate_status;  // bits to set where a coordinate comes twice
  i32* source_row;       // [rows of level 0] the caller's first row of each, preset to INT_MAX
  i32* row_of;           // [points] the row of each of the caller's
  IndexedSet sets[kMostIndexedLevels];
};

/// Kernel maps from an index: masks, and the counts and rows of those that somebody reads. A search's blocks
/// lie behind those of the one before.
struct SearchCellsSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct CellSearch {
  const void* query_keys;
  const i32* query_count;  // device
  KernelGeometry geometry;
  i32 source_level;  // of the index
  u32 end_block;     // blocks of this search and of those before it
  i32* rows;         // [volume][queries]: the source row, or -1; every entry is written; null: none
  u32* masks;        // [mask_words(volume)][queries] bit k % 32 of word k / 32: rows[k] is a row
  u32* counts;       // [volume] pairs are added to it; null: nobody asks
};
constexpr i32 kMostCellSearches = 24;  // of one launch
struct SearchCellsParams {
  const CloudLayout* layout;  // device
  CellIndex index;
  CellSearch searches[kMostCellSearches];
};

}  // namespace minuet
