// Indexes of coordinate sets by occupied cells (kernels_templates/shared/cell_index.h): size limits and
// placement.
#pragma once

#include "codegen/choose/problem.h"
#include "runtime/engine/arena.h"

namespace minuet {

/// Returns the most words that the index of a cloud may have: 32 words for each coordinate, clamped to a
/// fixed range.
i64 most_index_words(i64 coordinates);

/// Returns the number of words that a level of this tensor stride needs.
i64 level_index_words(const KeyLayout& layout, const AxisArray& stride);

/// Returns an upper bound on the runs of a level with `words` words in a cloud of `coordinates` coordinates.
i64 most_level_runs(i64 words, i64 coordinates);

/// Takes memory for an index whose levels have `words` words and at most `runs` runs in total.
CellIndex place_cell_index(Placement& parts, i64 words, i64 runs);

/// Returns true if the kernel's offsets, applied to a coarse coordinate, are exactly the fine coordinates of
/// its cell. Each row of the finer set is then read by one row of the coarser set only: the row that it is
/// floored to.
bool fills_cells(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                 const AxisArray& fine_stride, const AxisArray& coarse_stride);

}  // namespace minuet
