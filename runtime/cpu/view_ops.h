// Makes masks, orders and transposed rows of kernel maps (NeighbourView) on the CPU. The results equal those
// of the kernels in kernels_templates/map.
#pragma once

#include "runtime/cpu/map_ops.h"

namespace minuet {

/// Makes the masks of a view from its rows. If `counts` [volume] is not null, adds the number of pairs of
/// each kernel offset to it.
void make_masks_cpu(ThreadPool& pool, i64 queries, i32 volume, const NeighbourView& view, i32* counts);
/// Divides `workspace` into the scratch memory for sorting queries by mask, which the requests use one after
/// the other. The result is empty if no request asks for an order.
MapScratch place_order_scratch(llvm::ArrayRef<ViewRequest> requests, void* workspace);
/// Makes one view. `scratch` must be the result of place_order_scratch() for requests that include this one.
void make_view_cpu(ThreadPool& pool, const MapScratch& scratch, const ViewRequest& request);

}  // namespace minuet
