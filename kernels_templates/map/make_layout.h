// The kernel make_layout makes the layout of the cloud's keys from its bounds (key_layout.h). If no valid
// layout exists, the kernel sets the status, sets the number of points to 0, and writes an empty layout. One
// thread does the work.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/begin_cloud.h"

namespace minuet {

template <MakeLayoutSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void make_layout(MINUET_PARAMS(MakeLayoutParams) p) {
  follow_last_launch();
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  const i32* least = p.least;
  const i32* greatest = p.greatest;
  const i32 origin[kMaxFields] = {};
  if (p.cloud.bounds == nullptr) {
    take_count(p.cloud);
  } else {
    const bool is_found = *p.cloud.points != 0;
    least = is_found ? p.cloud.bounds : origin;
    greatest = is_found ? p.cloud.bounds + kMaxFields : origin;
  }
  CloudLayout cloud = make_bounded_layout(S.ndim, least, greatest, p.guard, p.period);
  u32 status = layout_status(cloud, S.ndim, p.period, p.key_bits);
  for (i32 f = 0; f <= S.ndim && p.has_limits != 0; ++f) {
    const bool is_inside = least[f] >= p.least[f] && greatest[f] <= p.greatest[f];
    if (!is_inside && least != origin) status |= kStatusOutOfBounds;
  }
  if (status != 0) {
    *p.cloud.status |= status;
    *p.cloud.points = 0;
    cloud.keys = KeyLayout{};  // The empty layout prevents shifts by invalid amounts in later kernels.
  }
  *p.layout = cloud;
}

}  // namespace minuet
