// The kernel clear_index prepares an index (voxel_index.h) for a new cloud. It empties the slots that the
// last cloud took, sets the look-back states to 0, stores the description of the new index, and
// initialises the cloud. To find the slots that were taken, it reads one bit per slot, so that it need not
// write the whole table.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/map/begin_cloud.h"
#include "kernels_templates/shared/voxel_index.h"

namespace minuet {

template <ClearIndexSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void clear_index(MINUET_PARAMS(ClearIndexParams) p) {
  follow_last_launch();
  const i64 first = grid_thread(S.threads), stride = grid_threads(S.threads);
  for (i64 w = first; w < p.taken_words; w += stride) {
    u32 taken = fresh(p.taken + w);
    if (taken == 0) continue;
    p.taken[w] = 0;
    for (; taken != 0; taken &= taken - 1) {
      Superblock& slot = p.table[w * 32 + lowest_bit(taken)];
      store_vector<16>(&slot, 0, Vector<16>{});
      store_vector<16>(&slot, 16, Vector<16>{});
    }
  }
  for (i64 i = first; i < p.sum_words; i += stride) p.sums[i] = 0;
  if (p.source_row != nullptr) {
    for (i64 i = first; i < p.most_rows; i += stride) p.source_row[i] = 0x7fffffff;
  }
  for (i64 i = first; i < p.zero_words; i += stride) p.zeros[i] = 0;
  for (i64 l = first; l < p.index.levels; l += stride) {
    p.to->level[l] = p.index.level[l];
    p.to->blocks[l] = p.to->rows[l] = 0;
  }
  if (first != 0) return;
  take_count(p.cloud);
  p.to->keys = p.index.keys;
  p.to->levels = p.index.levels;
  MINUET_UNROLL
  for (i32 f = 0; f < kMaxFields; ++f) {
    p.to->least[f] = p.index.least[f];
    p.to->greatest[f] = p.index.greatest[f];
  }
}

}  // namespace minuet
