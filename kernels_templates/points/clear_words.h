// The kernel clear_words sets all words of several arrays to a word of each array. Each thread sets one word
// at a time.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/point_kernels.h"

namespace minuet {

template <ClearWordsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void clear_words(MINUET_PARAMS(ClearWordsParams) p) {
  follow_last_launch();
  // The loop is unrolled, so that the arrays are read where the launch put them, and not copied.
  MINUET_UNROLL
  for (i32 a = 0; a < kMostClearedArrays; ++a) {
    const ClearedArray& array = p.arrays[a];
    if (a >= p.count) continue;
    for (i64 i = grid_thread(S.threads); i < array.count; i += grid_threads(S.threads))
      array.words[i] = array.word;
  }
}

}  // namespace minuet
