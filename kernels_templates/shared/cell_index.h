// Coordinate sets from occupied cells, without sorting: an index of the cells of a cloud's extent that hold a
// coordinate, and of their rows.
//
// The cells of a level are the coordinates of its stride inside the cloud's bounds and guards. They are
// numbered in key order: the highest key field first, the last axis fastest. 128 consecutive cells are a run.
// One bit per run is set if it has a coordinate; each run that has one is numbered and gets one bit per cell.
// Scans count both kinds of bits, so that the row of a cell takes two look-ups and equals its row in the
// sorted set. One index holds several levels, one after the other.
#pragma once

#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

constexpr i32 kMostIndexedLevels = 16;
constexpr i32 kWordBits = 32;
constexpr i32 kRunWords = 4;  // words of cell bits per run; LiDAR sweeps have many empty runs, dense clouds
                              // have none
constexpr i64 kRunCells = i64{kRunWords} * kWordBits;

constexpr i32 kMostIndexWords = 1 << 24;

/// The cells of one level.
struct CellGrid {
  i64 weight[kMaxFields];  // cells from one value of a field to the next
  i32 stride[kMaxFields];  // tensor stride; 1 for the batch
  i32 shift[kMaxFields];   // log2 of the stride, or -1 if it is not a power of two
  i32 words;               // of this level in CellIndex::runs; at most kMostIndexWords + 1
  i32 first_word;
  i32 before;  // rows of the levels before it; IndexStep::Rows stores it for later kernels
};
struct CellGrids {
  CellGrid levels[kMostIndexedLevels];
  i32 words = 0;  // of all levels
  i32 runs = 0;   // runs that have a coordinate
};

/// Device memory of an index of several levels.
struct CellIndex {
  CellGrids* grids = nullptr;
  BitWord* runs = nullptr;   // [words + 1] bit r % 32 of word r / 32: run r has a coordinate
  BitWord* cells = nullptr;  // [runs * kRunWords + 1] cells of the runs that have a coordinate; a set bit is
                             // a coordinate
};

struct LevelStrides {
  i32 axis[kMostIndexedLevels][kMaxDim];
};

/// Returns the grid of a level, except first_word and before. If there are too many cells, as with fields
/// wider than 32 bits, words is kMostIndexWords + 1.
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
    // Products that a double does not hold exactly are too large anyway. This is cheaper than a division.
    const bool fits = layout.span[f] >> 32 == 0 && static_cast<double>(values) * static_cast<double>(cells) <=
                                                       static_cast<double>(kMostCells);
    cells = fits ? cells * values : kMostCells + 1;
  }
  grid.words = static_cast<i32>((cells + kWordCells - 1) / kWordCells);
  return grid;
}

/// Returns a field in strides of the level. Most strides are powers of two, and divisions would take most of
/// the time of indexing.
MINUET_HD constexpr u32 strides_of(const CellGrid& grid, u32 field, i32 f) {
  return grid.shift[f] >= 0 ? field >> grid.shift[f] : field / static_cast<u32>(grid.stride[f]);
}

/// Returns the cell of a coordinate, floored to the level.
MINUET_HD constexpr i64 cell_of(const CellGrid& grid, const u32* fields, i32 count) {
  i64 cell = static_cast<i64>(fields[0]) * grid.weight[0];  // the batch, whose stride is 1
  MINUET_UNROLL
  for (i32 f = 1; f < count; ++f) {
    cell += static_cast<i64>(strides_of(grid, fields[f], f)) * grid.weight[f];
  }
  return cell;
}

/// Initialises an index: its grids, with no cell occupied.
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
  i64 most_words;  // if the levels need more, the status is set
  CellIndex index;
  i32* source_row;  // [most_rows] of level 0, set to INT_MAX
  i64 most_rows;
  u32* status;  // bits are or-ed in
  i32* points;  // set to 0 if the cloud has too many cells
};

/// The part of the index that one pass over the coordinates adds.
enum class IndexStep : i32 {
  Runs,   // the runs that have a coordinate
  Cells,  // the cells, after runs are counted; row_of stores the levels whose cell the coordinate was first
          // to mark
  Rows,   // the coordinate sets, after cells are counted
};
struct IndexCellsSpec {
  IndexStep step = IndexStep::Runs;
  KeyType key = KeyType::U32;  // of IndexStep::Rows
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
  i64 capacity;  // further coordinates set the status and are not written
};
struct IndexCellsParams {
  const i32* coordinates;     // [points, 1 + ndim]; coordinates outside the layout's bounds set the status
  const i32* points;          // device
  const CloudLayout* layout;  // device
  CellIndex index;
  i32 levels;
  u32* status;  // bits are or-ed in
  // The following members are for IndexStep::Rows.
  u32 duplicate_status;  // status bits to set if a coordinate occurs twice
  i32* source_row;       // [rows of level 0] the caller's first row of each, preset to INT_MAX
  i32* row_of;           // [points] the row of each of the caller's coordinates
  IndexedSet sets[kMostIndexedLevels];
};

/// Computes kernel maps from an index: masks, and optionally counts and rows. The blocks of each search
/// follow those of the search before it.
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
  i32 source_level;  // level of the index
  u32 end_block;     // number of blocks of this search and of those before it
  i32* rows;         // [volume][queries] the source row, or -1; every entry is written; null: not wanted
  u32* masks;        // [mask_words(volume)][queries] bit k % 32 of word k / 32: offset k has a row
  u32* counts;       // [volume] pairs are added to it; null: not wanted
};
constexpr i32 kMostCellSearches = 24;  // per launch
struct SearchCellsParams {
  const CloudLayout* layout;  // device
  CellIndex index;
  CellSearch searches[kMostCellSearches];
};

}  // namespace minuet
