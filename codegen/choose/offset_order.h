// The offsets that queries are ordered by, static and as good as a counted order, and the ranks that masks
// get.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <vector>

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

/// The ranks of each of several views whose queries, so many together, one sort puts in order; of each view
/// `ranked` offsets are looked at. At most kMostViews.
std::vector<MaskRanks> share_ranks(llvm::ArrayRef<i32> ranked, i64 queries);

}  // namespace minuet
