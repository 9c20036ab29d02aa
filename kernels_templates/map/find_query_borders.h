// The kernel find_query_borders is the backward search of the double-traversed binary search (Minuet paper,
// section 5.1.2). It computes borders[k][i], the first query q with q + delta_k > the last key of source
// block i, where delta_k is kernel offset k. It also computes pieces[k][i], the number of query blocks, of at
// most S.query_block queries each, between the borders of source blocks i - 1 and i.
//
// Each thread finds one border. A border is also the start of the next border's range. A thread block
// therefore finds one border more than it writes and shares borders in shared memory.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/search.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

/// Returns the border of source block i, which is the first query whose key plus `delta` is greater than the
/// block's last key. The border of the last block is the number of queries, so that every query gets a
/// result.
template <i32 SourceBlock, class Key>
MINUET_HD i64 query_border(const Key* sources, i64 source_count, const Key* queries, i64 query_count,
                           Key delta, i64 i) {
  if ((i + 1) * SourceBlock >= source_count) return query_count;
  const Key last = fresh(sources + (i + 1) * SourceBlock - 1);
  return first_greater<Key>(queries, query_count, delta, last);
}

template <FindQueryBordersSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void find_query_borders(MINUET_PARAMS(FindQueryBordersParams)
                                                                          p) {
  follow_last_launch();
  static_assert(S.threads >= 2, "one thread of a block looks at the border before the block's own");
  using Key = typename KeyOf<S.key>::Type;
  __shared__ i32 found[S.threads];
  const KeyLayout layout = with_ndim<S.ndim>(p.layout->keys);
  const KernelGeometry geometry = with_ndim<S.ndim>(p.geometry);
  const i64 source_count = *p.source_count;
  const i64 query_count = *p.query_count;
  const i64 blocks = source_blocks(source_count, S.source_block);
  const i64 borders = blocks * geometry.volume;
  constexpr i64 kOwn = S.threads - 1;

  for (i64 base = blockIdx.x * kOwn; base < borders; base += gridDim.x * kOwn) {
    const i64 index = base + threadIdx.x - 1;
    const bool inside = index >= 0 && index < borders;
    const i64 k = inside ? quotient(index, blocks) : 0;
    const i64 i = index - k * blocks;
    i32 border = 0;
    if (inside) {
      const Key delta = offset_key<Key>(layout, geometry, static_cast<i32>(k));
      border = static_cast<i32>(
          query_border<S.source_block, Key>(static_cast<const Key*>(p.source_keys), source_count,
                                            static_cast<const Key*>(p.query_keys), query_count, delta, i));
    }
    found[threadIdx.x] = border;
    __syncthreads();
    if (inside && threadIdx.x > 0) {
      const i32 start = i == 0 ? 0 : found[threadIdx.x - 1];
      p.borders[index] = border;
      p.pieces[index] = (border - start) / S.query_block + ((border - start) % S.query_block != 0);
    }
    __syncthreads();
  }
}

}  // namespace minuet
