// The further views of kernel maps on the CPU: the same results as the kernels of kernels_templates/map.
#pragma once

#include "runtime/cpu/map_ops.h"

namespace minuet {

/// counts: [volume], or null.
void make_masks_cpu(ThreadPool& pool, i64 queries, i32 volume, const NeighbourView& view, i32* counts);
void order_queries_cpu(ThreadPool& pool, const MapScratch& scratch, i64 queries,
                       const KernelGeometry& geometry, const NeighbourView& view);
void order_rows_cpu(ThreadPool& pool, const Coords& queries, i32 volume, const NeighbourView& view);
void transpose_rows_cpu(ThreadPool& pool, i64 sources, i64 queries, const MapView& map);

}  // namespace minuet
