// The kernel fold_batch_norms computes the scale and shift of several convolutions from the parameters of
// their batch norms (fold_channel()). Each thread handles one channel at a time.
#pragma once

#include "kernels_templates/parameters/job_of_item.h"

namespace minuet {

template <FoldBatchNormsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void fold_batch_norms(MINUET_PARAMS(FoldBatchNormsParams) p) {
  for_each_item<S.threads>(p, [](const BatchNormFold& job, i64 channel) { fold_batch_norm(job, channel); });
}

}  // namespace minuet
