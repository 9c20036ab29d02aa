// The kernel clear_cells initialises an empty index with the grids of the cloud's levels (cell_index.h).
//
// Every block computes the grids for itself, with one thread per level. The first block also stores them for
// later kernels. Then all blocks clear the run words that the cloud's extent needs, and as many cell words as
// its points can use.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/cell_index.h"

namespace minuet {

/// Sets the first `count` words to 0. All threads of a grid must call it with their index as `first` and
/// their number as `stride`. `count` must be even, because one store clears two words.
MINUET_DEVICE void clear_words(BitWord* words, i64 count, i64 first, i64 stride) {
  for (i64 i = first; i < count / 2; i += stride) store_vector<16>(words, i * 16, Vector<16>{});
}

template <ClearCellsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void clear_cells(MINUET_PARAMS(ClearCellsParams) p) {
  follow_last_launch();
  static_assert(S.threads >= kMostIndexedLevels, "a thread a level");
  __shared__ i32 level_words[kMostIndexedLevels];
  const i32 level = static_cast<i32>(threadIdx.x);
  CellGrid grid;
  if (level < p.levels) {
    grid = make_cell_grid(with_ndim<S.ndim>(p.layout->keys), p.strides.axis[level]);
    level_words[level] = grid.words;
  }
  __syncthreads();
  // For a cloud that does not fit, the first block may already have set *p.points to 0. This does no harm,
  // because then nothing has to be cleared.
  const i64 points = *p.points;
  i64 words = 0, runs = 0;
  for (i32 l = 0; l < p.levels; ++l) {
    if (l == level) grid.first_word = static_cast<i32>(words);
    words += level_words[l];
    const i64 of_level = i64{level_words[l]} * kWordBits;
    runs += of_level < points ? of_level : points;
  }
  const bool fits = words <= p.most_words;
  if (!fits) words = runs = 0;
  if (blockIdx.x == 0) {
    if (level < p.levels) p.index.grids->levels[level] = fits ? grid : CellGrid{};
    if (level == 0) {
      p.index.grids->words = static_cast<i32>(words);
      if (!fits) {
        *p.points = 0;
        atomicOr(p.status, kStatusTooManyCells);
      }
    }
  }
  const i64 first = grid_thread(S.threads), stride = grid_threads(S.threads);
  const i64 rows = points < p.most_rows ? points : p.most_rows;
  // The number of words is made even, because one store clears two words.
  clear_words(p.index.runs, words + words % 2, first, stride);
  clear_words(p.index.cells, runs * kRunWords, first, stride);
  for (i64 i = first; i < rows; i += stride) p.source_row[i] = 0x7fffffff;
}

}  // namespace minuet
