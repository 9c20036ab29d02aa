// This file reads the coordinates from which an index (voxel_index.h) is made.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/voxel_index.h"

namespace minuet {

/// Reads coordinate `i` and returns the status bits that it causes. A negative batch index causes its own
/// bit instead of IndexParams::outside_status, because no bounds would make it valid.
template <i32 Ndim>
MINUET_DEVICE u32 read_point(const IndexParams& p, const VoxelIndex& index, i64 i, i32* coordinate) {
  u32 status = 0;
  MINUET_UNROLL
  for (i32 f = 0; f <= Ndim; ++f) {
    coordinate[f] = fresh(p.coordinates + i * (Ndim + 1) + f);
    if (f == 0 && coordinate[f] < 0) {
      status |= kStatusNegativeBatch;
    } else if (coordinate[f] < index.least[f] || coordinate[f] > index.greatest[f]) {
      status |= p.outside_status;
    }
  }
  return status;
}

}  // namespace minuet
