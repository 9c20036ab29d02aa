// Coordinate sets by the cells that they occupy (kernels_templates/shared/cell_index.h): whether a cloud's
// sets get an index, and where it lies.
#pragma once

#include "codegen/choose/problem.h"
#include "runtime/engine/arena.h"

namespace minuet {

/// That an index of a cloud of so many coordinates may take: a quarter of a KiB a coordinate.
i64 most_index_words(i64 coordinates);

/// Words that a level of this tensor stride takes.
i64 level_index_words(const KeyLayout& layout, const AxisArray& stride);

/// Runs that a level of so many words has at most, of a cloud of so many coordinates.
i64 most_level_runs(i64 words, i64 coordinates);

/// Room for an index whose levels take `words` together, and have `runs` at most.
CellIndex place_cell_index(Placement& parts, i64 words, i64 runs);

/// Whether each row of a finer set lies in the cell of one row of a coarser one: of the row that it is
/// floored to, from which the kernel reaches all of the cell and no other.
bool fills_cells(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                 const AxisArray& fine_stride, const AxisArray& coarse_stride);

}  // namespace minuet
