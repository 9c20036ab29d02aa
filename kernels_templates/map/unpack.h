// The kernel unpack computes coordinates[i] = unpack(keys[i]). Each thread handles one key.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <UnpackSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void unpack(MINUET_PARAMS(UnpackParams) p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  constexpr i32 kFields = S.ndim + 1;
  const KeyLayout layout = with_ndim<S.ndim>(p.layout->keys);
  const i64 count = *p.count;
  for (i64 i = grid_thread(S.threads); i < count; i += grid_threads(S.threads)) {
    i32 coordinate[kFields];
    unpack_key<Key>(layout, fresh(static_cast<const Key*>(p.keys) + i), coordinate);
    MINUET_UNROLL
    for (i32 f = 0; f < kFields; ++f) p.coordinates[i * kFields + f] = coordinate[f];
  }
}

}  // namespace minuet
