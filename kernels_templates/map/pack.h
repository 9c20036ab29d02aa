// The kernel pack computes keys[i] = pack(coordinates[i]) and rows[i] = i. Each thread handles one
// coordinate.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/field_inside.h"

namespace minuet {

template <PackSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void pack(MINUET_PARAMS(PackParams) p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  constexpr i32 kFields = S.ndim + 1;
  const CloudLayout& cloud = *p.layout;
  const KeyLayout layout = with_ndim<S.ndim>(cloud.keys);
  const i64 count = *p.count;
  for (i64 i = grid_thread(S.threads); i < count; i += grid_threads(S.threads)) {
    i32 coordinate[kFields];
    u32 status = 0;
    MINUET_UNROLL
    for (i32 f = 0; f < kFields; ++f) {
      coordinate[f] = field_inside(cloud, p.coordinates + i * kFields, f, status);
    }
    if (status != 0) atomicOr(p.status, status);
    static_cast<Key*>(p.keys)[i] = pack_key<Key>(layout, coordinate);
    if (p.rows != nullptr) p.rows[i] = static_cast<u32>(i);
  }
}

}  // namespace minuet
