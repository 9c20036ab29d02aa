// The kernel begin_cloud initialises a cloud, which means its number of coordinates, its status, and empty
// bounds. It runs as one block. Thread 0 sets the number and the status, and threads below 2 * kMaxFields
// initialise the bounds.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

/// Sets the number of coordinates and the status. Only one thread may call it.
MINUET_DEVICE void take_count(const BeginCloudParams& p) {
  const i64 count = p.given_count != nullptr ? *p.given_count : p.most;
  const bool fits = count >= 0 && count <= p.most;
  *p.points = fits ? static_cast<i32>(count) : 0;
  *p.status = fits ? 0 : kStatusPastCapacity;
}

template <BeginCloudSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void begin_cloud(MINUET_PARAMS(BeginCloudParams) p) {
  follow_last_launch();
  if (threadIdx.x < 2 * kMaxFields) {
    p.bounds[threadIdx.x] = threadIdx.x < kMaxFields ? 0x7fffffff : -0x7fffffff - 1;
  }
  if (threadIdx.x == 0) take_count(p);
}

}  // namespace minuet
