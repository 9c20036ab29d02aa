// The kernel compact_pairs writes the pairs of kernel maps, each map's ordered by offset, then by query. For
// each map[k][q] that is not -1, with n = positions[k][q], it sets offsets[n * step] = k, sources[n * step] =
// map[k][q] and targets[n * step] = q. Without a map, which has one offset then, each query is its own
// source.
//
// Consecutive blocks work on one map (PairsJob::first_block). A thread handles several map entries at once,
// so that their loads overlap.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

template <CompactPairsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void compact_pairs(MINUET_PARAMS(CompactPairsParams) params) {
  follow_last_launch();
  constexpr i32 kEntriesAtOnce = 4;
  const i32 block = static_cast<i32>(blockIdx.x);
  i32 map = 0;
  while (map + 1 < params.count && params.jobs[map + 1].first_block <= block) ++map;
  const PairsJob& p = params.jobs[map];
  const i32 end_block =
      map + 1 < params.count ? params.jobs[map + 1].first_block : static_cast<i32>(gridDim.x);
  const i64 thread = i64{block - p.first_block} * S.threads + static_cast<i32>(threadIdx.x);
  const i64 queries = p.query_count != nullptr ? fresh(p.query_count) : p.queries;
  const i64 entries = queries * p.volume;
  const i64 stride = i64{end_block - p.first_block} * S.threads;
  const bool has_map = p.map != nullptr;
  if (thread == 0 && p.pair_count != nullptr)
    *p.pair_count = has_map ? fresh(p.positions + entries) : static_cast<i32>(entries);
  RowIterator walk(thread, stride, queries);
  for (i64 first = thread; first < entries; first += kEntriesAtOnce * stride) {
    i32 source[kEntriesAtOnce], pair[kEntriesAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kEntriesAtOnce; ++u) {
      const i64 entry = first + u * stride;
      source[u] = has_map           ? load_row_if<true>(entry < entries, p.map + entry)
                  : entry < entries ? static_cast<i32>(entry)
                                    : -1;
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kEntriesAtOnce; ++u)
      pair[u] = has_map ? load_row_if<true>(source[u] >= 0, p.positions + first + u * stride) : source[u];
    MINUET_UNROLL
    for (i32 u = 0; u < kEntriesAtOnce; ++u, walk.advance()) {
      if (pair[u] < 0 || pair[u] >= p.capacity) continue;
      const i32 query = static_cast<i32>(walk.inner());
      const i64 place = pair[u] * p.step;
      if (p.offsets != nullptr) p.offsets[place] = static_cast<i32>(walk.outer());
      p.sources[place] = p.source_numbers != nullptr ? fresh(p.source_numbers + source[u]) : source[u];
      p.targets[place] = p.query_numbers != nullptr ? fresh(p.query_numbers + query) : query;
    }
  }
}

}  // namespace minuet
