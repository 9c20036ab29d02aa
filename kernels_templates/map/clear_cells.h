// An index of no coordinates, with the grids of the cloud's levels (cell_index.h).
//
// Every block makes the grids for itself, the first one for the kernels that follow too; then the grid of
// blocks clears what those read of the index, and no more.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/shared/cell_index.h"

namespace minuet {

template <ClearCellsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void clear_cells(const ClearCellsParams p) {
  __shared__ i32 shared_words;
  if (threadIdx.x == 0) {
    CellGrids grids = make_cell_grids(with_ndim<S.ndim>(p.layout->keys), p.levels, p.strides);
    const bool fits = grids.words <= p.most_words;
    if (!fits) grids = CellGrids{};
    if (blockIdx.x == 0) {
      *p.index.grids = grids;
      if (!fits) {
        *p.points = 0;
        atomicOr(p.status, kStatusTooManyCells);
      }
    }
    shared_words = grids.words;
  }
  __syncthreads();
  const i64 first = grid_thread(S.threads), stride = grid_threads(S.threads);
  for (i64 i = first; i < shared_words; i += stride) p.index.occupied[i] = 0;
  for (i64 i = first; i < p.most_runs * kRunWords; i += stride) p.index.cells[i] = 0;
  for (i64 i = first; i < p.most_rows; i += stride) p.source_row[i] = 0x7fffffff;
}

}  // namespace minuet
