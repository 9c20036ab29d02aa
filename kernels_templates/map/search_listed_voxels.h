// The kernel search_listed_voxels looks up, for each query and each offset of a list, the row of the source
// in an index of the sources (voxel_index.h). It sets rows[k][q] to this row or -1, and bit k % 32 of masks[k
// / 32][q] if there is one. Optionally it adds the number of such queries to counts[k].
//
// Each thread handles one query. All threads of a warp process the same offsets at a time, so that they can
// count their sources together (count_votes()).
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/votes.h"
#include "kernels_templates/map/neighbours.h"
#include "kernels_templates/shared/listed_kernels.h"

namespace minuet {

/// Looks up the sources of query `q` at up to 32 offsets, from number `begin` of this launch on, and returns
/// their bits.
template <i32 Ndim>
MINUET_DEVICE u32 search_listed(const NeighbourSearch<Ndim>& setup, const SearchListedVoxelsParams& p,
                                const Voxel& query, i64 q, i64 queries, i32 begin) {
  VoxelFinder<Ndim> finder(setup);
  const i32 count = p.offsets.count - begin < 32 ? p.offsets.count - begin : 32;
  u32 bits = 0;
  for (i32 k = 0; k < count; ++k) {
    i64 coordinate[Ndim + 1] = {query.at[0]};
    MINUET_UNROLL
    for (i32 a = 0; a < Ndim; ++a)
      coordinate[a + 1] = i64{query.at[a + 1]} * setup.queries.stride[a] + p.offsets.at[begin + k][a];
    const i32 row = finder.find(coordinate);
    if (q < queries) p.search.rows[(p.offsets.first + begin + k) * queries + q] = row;
    bits |= static_cast<u32>(q < queries && row >= 0) << k;
  }
  return bits;
}

template <SearchListedVoxelsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void search_listed_voxels(
    MINUET_PARAMS(SearchListedVoxelsParams) p) {
  follow_last_launch();
  static_assert(S.threads % 32 == 0 && S.threads >= kMostListedOffsets, "whole warps vote");
  __shared__ NeighbourSearch<S.ndim> setup;
  __shared__ u32 counts[kMostListedOffsets];
  const VoxelSearch& search = p.search;
  if (threadIdx.x < kMostListedOffsets) counts[threadIdx.x] = 0;
  begin_search<S.ndim, S.threads>(setup, search.geometry, *search.sources.index, search.sources.level,
                                  *search.queries.index, search.queries.level);
  const i64 queries = *search.query_count;
  const i32 lane = static_cast<i32>(threadIdx.x & 31u);
  // All lanes of a warp must vote, including those past the last query.
  for (i64 q = grid_thread(S.threads); q - lane < queries; q += grid_threads(S.threads)) {
    const Voxel voxel =
        voxel_of_row<S.ndim>(setup.query_keys, setup.queries, q < queries ? q : queries - 1).voxel;
    for (i32 begin = 0; begin < p.offsets.count; begin += 32) {
      const u32 bits = search_listed<S.ndim>(setup, p, voxel, q, queries, begin);
      if (q < queries) search.masks[(p.offsets.first + begin) / 32 * queries + q] = bits;
      const u32 hits = count_votes(bits);
      if (hits != 0) atomicAdd(counts + begin + lane, hits);
    }
  }
  __syncthreads();
  const i32 thread = static_cast<i32>(threadIdx.x);
  if (search.counts != nullptr && thread < p.offsets.count && counts[thread] != 0)
    atomicAdd(search.counts + p.offsets.first + thread, counts[thread]);
}

}  // namespace minuet
