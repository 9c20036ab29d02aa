// The offsets that queries are ordered by: static, and as good as a counted order.
#pragma once

#include "kernels_templates/shared/key_layout.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

struct OffsetOrder {
  u16 offsets[kMostRankedOffsets] = {};  // the rarest first
  i32 ranked = 0;
};

/// Corners, edges, faces, centre: by how many axes an offset moves on, and how far; ties by number. For
/// kernels of at most 2^16 offsets.
OffsetOrder order_offsets(const KernelGeometry& geometry);

}  // namespace minuet
