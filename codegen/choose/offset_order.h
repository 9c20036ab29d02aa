// Chooses the offsets by which the fused dataflow orders its queries, and the number of ranks of their masks.
// The order is static, which sorts as well as an order by counted offsets.
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

/// Ranks offsets by the number of axes on which they differ from the centre, then by distance: corners,
/// edges, faces, centre. Ties keep the order of offset numbers. The kernel may have at most 2^16 offsets.
OffsetOrder order_offsets(const KernelGeometry& geometry);

/// Returns the ranks of the masks of several views that are ordered by one sort. `ranked` has the number of
/// ranked offsets of each view, at most kMostViews views; `queries` is the total number of queries.
std::vector<MaskRanks> share_ranks(llvm::ArrayRef<i32> ranked, i64 queries);

}  // namespace minuet
