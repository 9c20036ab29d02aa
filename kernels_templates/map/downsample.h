// The kernel downsample computes floored[i], the key of coordinate i rounded down to a multiple of the
// stride. Each thread handles one key.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <DownsampleSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void downsample(MINUET_PARAMS(DownsampleParams) p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  const KeyLayout layout = with_ndim<S.ndim>(p.layout->keys);
  const i64 count = *p.count;
  for (i64 i = grid_thread(S.threads); i < count; i += grid_threads(S.threads)) {
    const Key key = fresh(static_cast<const Key*>(p.keys) + i);
    static_cast<Key*>(p.floored)[i] = floor_key<Key>(layout, key, p.stride);
  }
}

}  // namespace minuet
