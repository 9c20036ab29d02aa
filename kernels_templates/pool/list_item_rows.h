// The kernel list_item_rows counts the rows of each batch item, or lists them by item
// (shared/global_pool_kernels.h). Each warp handles a part of the rows, 32 consecutive rows at a time, and is
// the only one that changes the words of this part. So rows are listed in ascending order.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/votes.h"
#include "kernels_templates/shared/global_pool_kernels.h"

namespace minuet {

template <ItemRowsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void list_item_rows(MINUET_PARAMS(ItemRowsParams) p) {
  constexpr i32 kAtOnce = 4;
  const i64 count = *p.count, lane = threadIdx.x & 31u;
  const i64 each = (count + p.splits - 1) / p.splits;
  for (i64 split = grid_thread(S.threads) / 32; split < p.splits; split += grid_threads(S.threads) / 32) {
    const i64 end = (split + 1) * each < count ? (split + 1) * each : count;
    for (i64 first = split * each; first < end; first += 32 * kAtOnce) {
      i32 items[kAtOnce];
      MINUET_UNROLL
      for (i32 u = 0; u < kAtOnce; ++u) {
        const i64 row = first + u * 32 + lane;
        items[u] = row < end ? read_only(p.coordinates + row * (1 + S.ndim)) : -1;
      }
      MINUET_UNROLL
      for (i32 u = 0; u < kAtOnce; ++u) {
        const bool is_there = items[u] >= 0 && items[u] < p.batch;
        const i64 word = i64{items[u]} * p.splits + split;
        const u32 place = count_equal(p.places, is_there ? static_cast<i32>(word) : -1);
        if constexpr (S.lists) {
          if (is_there) p.rows[place] = static_cast<i32>(first + u * 32 + lane);
        }
      }
    }
  }
}

}  // namespace minuet
