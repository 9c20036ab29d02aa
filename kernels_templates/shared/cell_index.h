// This file declares the Spec (compile time) and Params (run time) of the kernels that make coordinate sets
// and kernel maps without sorting. They use an index of the cells of a cloud's extent that hold a coordinate.
// The index also gives the row of each of these cells. All pointers are device pointers.
//
// The cells of a level are the coordinates inside the cloud's bounds and guards that are multiples of the
// level's stride. They are numbered in the order of their keys, so that the batch changes slowest and the
// last axis fastest. 128 consecutive cells form a run. Each run has one bit, which is set if the run holds a
// coordinate. Only runs that hold a coordinate are numbered and have one bit per cell. Scans count both kinds
// of bits. Two look-ups therefore find the row of a cell, which equals its row in the sorted set. One index
// holds several levels, one after the other.
#pragma once

#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

constexpr i32 kMostIndexedLevels = 16;
constexpr i32 kWordBits = 32;
/// A run has this many words of cell bits. LiDAR sweeps have many runs without a coordinate, which need no
/// such words. Dense clouds have none.
constexpr i32 kRunWords = 4;
constexpr i64 kRunCells = i64{kRunWords} * kWordBits;

constexpr i32 kMostIndexWords = 1 << 24;

/// Describes the cells of one level. Its arrays have one element per key field.
struct CellGrid {
  i64 weight[kMaxFields];  // Gives the number of cells from one value of a field to the next.
  i32 stride[kMaxFields];  // Holds the tensor stride of each axis, and 1 for the batch.
  i32 shift[kMaxFields];   // Holds the log2 of each stride, or -1 if the stride is not a power of two.
  /// Gives the number of this level's words in CellIndex::runs. It is at most kMostIndexWords + 1, which
  /// stands for too many cells.
  i32 words;
  i32 first_word;
  /// Gives the number of rows of all earlier levels. IndexStep::Rows stores it for later kernels.
  i32 before;
};
struct CellGrids {
  CellGrid levels[kMostIndexedLevels];
  i32 words = 0;  // Gives the number of words of all levels in CellIndex::runs.
  i32 runs = 0;   // Gives the number of runs that hold a coordinate.
};

/// Points to the device memory of an index of several levels.
struct CellIndex {
  CellGrids* grids = nullptr;
  /// Has CellGrids::words + 1 elements. Bit r % 32 of word first_word + r / 32 is set if run r of a level
  /// holds a coordinate.
  BitWord* runs = nullptr;
  /// Has CellGrids::runs * kRunWords + 1 elements, for the cells of the runs that hold a coordinate. A set
  /// bit stands for a cell that holds a coordinate.
  BitWord* cells = nullptr;
};

struct LevelStrides {
  i32 axis[kMostIndexedLevels][kMaxDim];
};

/// Returns the grid of a level, except its members first_word and before. `stride` has one element per axis.
/// If there are too many cells, as with fields wider than 32 bits, `words` is kMostIndexWords + 1.
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
    // An integer product could overflow, and a test by division would cost more than this comparison of
    // doubles. A product that a double does not hold exactly is above the limit anyway.
    const bool fits = layout.span[f] >> 32 == 0 && static_cast<double>(values) * static_cast<double>(cells) <=
                                                       static_cast<double>(kMostCells);
    cells = fits ? cells * values : kMostCells + 1;
  }
  grid.words = static_cast<i32>((cells + kWordCells - 1) / kWordCells);
  return grid;
}

/// Returns a field divided by the stride of the level, rounded down. Most strides are powers of two and need
/// only a shift. Divisions would take most of the time of indexing.
MINUET_HD constexpr u32 strides_of(const CellGrid& grid, u32 field, i32 f) {
  return grid.shift[f] >= 0 ? field >> grid.shift[f] : field / static_cast<u32>(grid.stride[f]);
}

/// Returns the number of the level's cell that contains a coordinate. `fields` holds the coordinate's `count`
/// key fields.
MINUET_HD constexpr i64 cell_of(const CellGrid& grid, const u32* fields, i32 count) {
  // The stride of the batch is 1, so no division is needed.
  i64 cell = static_cast<i64>(fields[0]) * grid.weight[0];
  MINUET_UNROLL
  for (i32 f = 1; f < count; ++f) {
    cell += static_cast<i64>(strides_of(grid, fields[f], f)) * grid.weight[f];
  }
  return cell;
}

/// The kernel clear_cells writes the grids of an index and marks all cells as unoccupied.
struct ClearCellsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct ClearCellsParams {
  const CloudLayout* layout;
  i32 levels;
  LevelStrides strides;
  i64 most_words;  // The kernel sets the status if the levels need more words.
  CellIndex index;
  /// Has most_rows elements for the rows of level 0, which the kernel sets to INT_MAX.
  i32* source_row;
  i64 most_rows;
  u32* status;  // The kernel ORs its status bits into this word.
  i32* points;  // The kernel sets this count to 0 if the cloud has too many cells.
};

/// Selects what one pass over the coordinates adds to the index.
enum class IndexStep : i32 {
  Runs,  // The pass marks the runs that hold a coordinate.
  /// The pass marks the cells that hold a coordinate, after a scan has counted the runs. In row_of it stores
  /// the levels in which a coordinate was the first to mark its cell.
  Cells,
  Rows,  // The pass writes the coordinate sets, after a scan has counted the cells.
};
struct IndexCellsSpec {
  IndexStep step = IndexStep::Runs;
  KeyType key = KeyType::U32;  // Selects the type of the keys that IndexStep::Rows writes.
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("step", step), visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct IndexedSet {
  void* keys;    // Receives the keys in ascending order.
  i32* count;    // Receives the number of keys.
  i64 capacity;  // If there are more keys, the kernel sets the status and does not write the rest.
};
struct IndexCellsParams {
  /// Has the shape [points, 1 + ndim]. A coordinate outside the layout's bounds sets the status.
  const i32* coordinates;
  const i32* points;
  const CloudLayout* layout;
  CellIndex index;
  i32 levels;
  u32* status;  // The kernel ORs its status bits into this word.
  // The following members are for IndexStep::Rows. IndexStep::Cells also uses row_of, to store the marked
  // levels.
  u32 duplicate_status;  // The kernel sets these status bits if a coordinate occurs twice.
  /// Receives the caller's first row of each row of level 0. It must be preset to INT_MAX.
  i32* source_row;
  i32* row_of;  // Receives the row of each of the caller's coordinates in level 0.
  IndexedSet sets[kMostIndexedLevels];
};

/// The kernel search_cells computes kernel maps from an index. It always makes masks, and optionally counts
/// and rows. The blocks of the grid are assigned to the searches in ascending order.
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
  const i32* query_count;
  KernelGeometry geometry;
  i32 source_level;  // Gives the level of the sources in the index.
  u32 end_block;     // Gives the number of grid blocks of this search and of all searches before it.
  /// Has the shape [volume][queries]. The kernel writes the source row or -1 to every entry, unless this
  /// pointer is null.
  i32* rows;
  /// Has the shape [mask_words(volume)][queries]. Bit k % 32 of word k / 32 is set if offset k has a row.
  u32* masks;
  /// The kernel adds the number of pairs of offset k to element k, unless this pointer is null.
  u32* counts;
};
constexpr i32 kMostCellSearches = 24;  // This is the maximum number of searches per launch.
struct SearchCellsParams {
  const CloudLayout* layout;
  CellIndex index;
  CellSearch searches[kMostCellSearches];
};

}  // namespace minuet
