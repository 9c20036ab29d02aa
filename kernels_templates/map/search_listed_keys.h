// The kernel search_listed_keys sets map[k][q] to the source row whose key is q + delta_k, where delta_k is
// offset k of a list, or to -1. Each thread finds one entry of the map by a binary search among all sources.
// The entries of one offset are consecutive, so that the threads of a warp search for neighbouring keys.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/search.h"
#include "kernels_templates/shared/listed_kernels.h"

namespace minuet {

template <SearchListedKeysSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void search_listed_keys(MINUET_PARAMS(SearchListedKeysParams)
                                                                          p) {
  follow_last_launch();
  static_assert(S.threads >= kMostListedOffsets, "each thread computes at most one key of an offset");
  using Key = typename KeyOf<S.key>::Type;
  __shared__ Key deltas[kMostListedOffsets];
  const i32 thread = static_cast<i32>(threadIdx.x);
  if (thread < p.offsets.count)
    deltas[thread] = listed_key<Key>(with_ndim<S.ndim>(p.layout->keys), p.offsets.at[thread]);
  __syncthreads();
  const Key* const sources = static_cast<const Key*>(p.source_keys);
  const Key* const queries = static_cast<const Key*>(p.query_keys);
  const i64 source_count = *p.source_count, query_count = *p.query_count;
  i32* const map = p.map + p.offsets.first * query_count;
  const i64 entries = p.offsets.count * query_count;
  const i64 first = grid_thread(S.threads), stride = grid_threads(S.threads);
  RowIterator entry(first, stride, query_count);
  for (i64 i = first; i < entries; i += stride, entry.advance()) {
    const Key wanted = static_cast<Key>(fresh(queries + entry.inner()) + deltas[entry.outer()]);
    const i64 row = first_greater<Key>(sources, source_count, Key{0}, wanted) - 1;
    map[i] = row >= 0 && fresh(sources + row) == wanted ? static_cast<i32>(row) : -1;
  }
}

}  // namespace minuet
