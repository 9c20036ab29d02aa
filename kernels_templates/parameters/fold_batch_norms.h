// The kernel fold_batch_norms computes the scale and shift of several convolutions from the parameters of
// their batch norms (fold_channel()). Each thread handles one channel at a time.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/shared/parameter_kernels.h"

namespace minuet {

template <FoldBatchNormsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void fold_batch_norms(MINUET_PARAMS(FoldBatchNormsParams) p) {
  __shared__ i64 starts[kMostBatchNorms + 1];
  find_starts<S.threads, kMostBatchNorms>(starts, p.count, [&](i32 job) { return p.jobs[job].channels; });
  JobIterator jobs(starts);
  for (i64 item = grid_thread(S.threads); item < starts[p.count]; item += grid_threads(S.threads)) {
    const i32 job = jobs.advance(item);
    fold_batch_norm(p.jobs[job], jobs.inner(item));
  }
}

}  // namespace minuet
