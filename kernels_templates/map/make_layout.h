// The layout of a cloud's keys from its bounds (key_layout.h), where keys can hold it. One thread.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <MakeLayoutSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void make_layout(const MakeLayoutParams p) {
  follow_last_launch();
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  const i32* least = p.bounds != nullptr ? p.bounds : p.least;
  const i32* greatest = p.bounds != nullptr ? p.bounds + kMaxFields : p.greatest;
  const i32 origin[kMaxFields] = {};
  if (p.bounds != nullptr && *p.points == 0) least = greatest = origin;  // nothing was found
  CloudLayout cloud = make_bounded_layout(S.ndim, least, greatest, p.guard, p.period);
  const u32 status = layout_status(cloud, S.ndim, p.period, p.key_bits);
  if (status != 0) {
    *p.status |= status;
    *p.points = 0;
    cloud.keys = KeyLayout{};  // which no kernel may shift by
  }
  *p.layout = cloud;
}

}  // namespace minuet
