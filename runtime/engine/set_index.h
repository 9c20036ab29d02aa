// Limits the size of an index of the cells that coordinate sets occupy, and places such an index in memory
// (kernels_templates/shared/cell_index.h).
#pragma once

#include "codegen/choose/problem.h"
#include "runtime/engine/arena.h"

namespace minuet {

/// Returns the most words that the index of a cloud may have: 32 words for each coordinate, clamped to a
/// fixed range.
i64 most_index_words(i64 coordinates);

/// Returns the number of words that a level, which is the coordinate set of one tensor stride, needs in the
/// index.
i64 level_index_words(const KeyLayout& layout, const AxisArray& stride);

/// Returns an upper bound on the occupied runs of cells of a level that has `words` words, in a cloud of
/// `coordinates` coordinates. A run is kRunCells consecutive cells.
i64 most_level_runs(i64 words, i64 coordinates);

/// Takes memory for an index whose levels have `words` words and at most `runs` occupied runs in total.
CellIndex place_cell_index(Placement& parts, i64 words, i64 runs);

/// Returns true if the kernel's offsets, applied to a coarse coordinate, are exactly the fine coordinates of
/// its cell. Then only one row of the coarser set reads a row of the finer set, namely the one whose cell the
/// finer row is in.
bool fills_cells(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                 const AxisArray& fine_stride, const AxisArray& coarse_stride);

}  // namespace minuet
