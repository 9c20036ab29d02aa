// Makes the further views of kernel maps on the CPU. The results equal those of the kernels in
// kernels_templates/map.
#pragma once

#include "runtime/cpu/map_ops.h"

namespace minuet {

/// Makes the masks of a view from its rows. If `counts` [volume] is not null, adds the pairs of each offset
/// to it.
void make_masks_cpu(ThreadPool& pool, i64 queries, i32 volume, const NeighbourView& view, i32* counts);
/// Places the scratch memory for ordering. The requests use it one after the other. It is empty if no request
/// is ordered.
MapScratch place_order_scratch(llvm::ArrayRef<ViewRequest> requests, void* workspace);
/// Makes one view. `scratch` must have been placed for requests that include this one.
void make_view_cpu(ThreadPool& pool, const MapScratch& scratch, const ViewRequest& request);

}  // namespace minuet
