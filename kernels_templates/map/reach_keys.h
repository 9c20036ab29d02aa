// The kernel reach_keys writes the key of each coordinate that follows from a coordinate of the parent set
// (reached_cells.h). Each thread handles one pair of a parent's coordinate and a cell. The keys are then
// sorted, so their order does not matter here.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

/// Returns true if `key` is among `count` ascending keys.
template <class Key>
MINUET_DEVICE bool has_key(const Key* keys, i64 count, Key key) {
  i64 first = 0, end = count;
  while (first < end) {
    const i64 middle = first + (end - first) / 2;
    if (fresh(keys + middle) < key) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return first < count && fresh(keys + first) == key;
}

template <ReachKeysSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void reach_keys(MINUET_PARAMS(ReachKeysParams) p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  const KeyLayout layout = with_ndim<S.ndim>(p.layout->keys);
  const i64 items = i64{*p.count} * p.source.cells;
  for (i64 i = grid_thread(S.threads); i < items; i += grid_threads(S.threads)) {
    const i64 row = i / p.source.cells;
    i32 coordinate[S.ndim + 1], cell[S.ndim + 1];
    unpack_key<Key>(layout, fresh(static_cast<const Key*>(p.keys) + row), coordinate);
    if (!reached_cell(p.source, S.ndim, coordinate, static_cast<i32>(i - row * p.source.cells), cell))
      continue;
    MINUET_UNROLL
    for (i32 a = 0; a < S.ndim; ++a) cell[a + 1] *= p.source.stride[a];
    const Key key = pack_key<Key>(layout, cell);
    if (p.others != nullptr && !has_key(static_cast<const Key*>(p.others), i64{*p.other_count}, key))
      continue;
    static_cast<Key*>(p.reached)[atomicAdd(p.reached_count, 1u)] = key;
  }
}

}  // namespace minuet
