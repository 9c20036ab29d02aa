// Makes coordinate sets and kernel maps with an index of voxels (voxel_index.h) on the CPU. The rows and
// their order are the same as those that the GPU kernels in kernels_templates/map compute. The functions
// find the order by a sort, and then write the index from the sorted voxels.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/map_operations.h"

namespace minuet {

void index_sets_cpu(ThreadPool& pool, i32 ndim, const IndexSetsRequest& request);
void search_index_cpu(ThreadPool& pool, i32 ndim, const IndexedSearch& search);
/// Writes the coordinates of a set in an index to `coordinates`, which has the shape [*coords.count, 1 +
/// ndim].
void list_voxels_cpu(ThreadPool& pool, i32 ndim, const Coords& coords, i32* coordinates);

}  // namespace minuet
