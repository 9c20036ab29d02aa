// The further views of kernel maps on the CPU: the same results as the kernels of kernels_templates/map.
#pragma once

#include "runtime/cpu/map_ops.h"

namespace minuet {

/// counts: [volume] pairs are added to it; or null.
void make_masks_cpu(ThreadPool& pool, i64 queries, i32 volume, const NeighbourView& view, i32* counts);
/// What orders take, one after the other; nothing where none is asked for.
MapScratch place_order_scratch(llvm::ArrayRef<ViewRequest> requests, void* workspace);
/// `scratch`: for requests of which this is one.
void make_view_cpu(ThreadPool& pool, const MapScratch& scratch, const ViewRequest& request);

}  // namespace minuet
