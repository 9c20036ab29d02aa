// block_masks[word][b] = all bits of the ordered masks of block b's places. One warp a block.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

template <UniteMasksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void unite_masks(const ViewsParams p) {
  follow_last_launch();
  static_assert(S.threads % 32 == 0 && kLeastBlockHeight == 32, "a lane has a place");
  __shared__ i64 starts[kMostViews + 1];
  find_starts<S.threads, kMostViews>(starts, p.job_count, [&](i32 j) -> i64 {
    return p.jobs[j].order ? blocks_of_height(*p.jobs[j].query_count, kLeastBlockHeight) : 0;
  });
  const i64 all = starts[p.job_count], lane = threadIdx.x & 31u;
  JobWalk walk(starts);
  for (i64 i = grid_thread(S.threads) / 32; i < all; i += grid_threads(S.threads) / 32) {
    const ViewJob& job = p.jobs[walk.advance(i)];
    const i64 block = walk.inner(i), place = block * kLeastBlockHeight + lane;
    const i64 stride = blocks_of_height(job.ordered_stride, kLeastBlockHeight);
    for (i32 word = 0; word < mask_words(job.volume); ++word) {
      const u32 mask =
          place < *job.query_count ? fresh(job.ordered_masks + word * job.ordered_stride + place) : 0;
      const u32 united = __reduce_or_sync(~0u, mask);
      if (lane == 0) job.block_masks[word * stride + block] = united;
    }
  }
}

}  // namespace minuet
