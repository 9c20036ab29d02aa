// Chooses the kernel offsets by which the fused dataflow orders its queries (output rows), and the number of
// ranks for the queries' masks of offsets (MaskRanks). The order of offsets depends only on the kernel. It
// is as good as an order by the number of queries that have each offset.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <vector>

#include "codegen/choose/offset_list.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

struct OffsetOrder {
  u16 offsets[kMostRankedOffsets] = {};  // The offset that is expected to be rarest comes first.
  i32 ranked = 0;
};

/// Orders offsets by the number of axes on which they differ from the centre, then by distance from it, each
/// in descending order. Corners come first, then edges, faces and the centre. Offsets with the same number
/// and distance keep the order of their indices. The kernel may have at most 2^16 offsets. `list` is that of
/// WindowProblem::offsets.
OffsetOrder order_offsets(const KernelGeometry& geometry, const OffsetList& list = {});

/// Returns the ranks of the masks of several views (ViewJob) of kernel maps, whose queries are sorted
/// together. `ranked` has OffsetOrder::ranked of each view, for at most kMostViews views. `queries` is the
/// number of queries of all views together.
std::vector<MaskRanks> share_ranks(llvm::ArrayRef<i32> ranked, i64 queries);

}  // namespace minuet
