// The kernel list_voxels sets coordinates[r] to the coordinate of row r of a level of an index
// (voxel_index.h). Each thread handles one row.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/row_voxel.h"

namespace minuet {

template <ListVoxelsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void list_voxels(MINUET_PARAMS(ListVoxelsParams) p) {
  follow_last_launch();
  const IndexLevel& level = p.index->level[p.level];
  const i64 count = *p.count;
  for (i64 i = grid_thread(S.threads); i < count; i += grid_threads(S.threads)) {
    const RowVoxel<S.ndim> row = voxel_of_row<S.ndim>(p.index->keys, level, i);
    i32* const to = p.coordinates + i * (S.ndim + 1);
    to[0] = row.voxel.at[0];
    MINUET_UNROLL
    for (i32 a = 0; a < S.ndim; ++a) to[a + 1] = row.voxel.at[a + 1] * level.stride[a];
  }
}

}  // namespace minuet
