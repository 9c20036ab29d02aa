// The kernel void_failed sets the counts words[i] to 0 if the cloud's status has a bit set, because a failed
// cloud has no rows. It runs as one block.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <VoidFailedSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void void_failed(MINUET_PARAMS(VoidFailedParams) p) {
  follow_last_launch();
  if (*p.status == 0) return;
  for (i64 i = threadIdx.x; i < p.counts; i += S.threads) p.words[i] = 0;
}

}  // namespace minuet
