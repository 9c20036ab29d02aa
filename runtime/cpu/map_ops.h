// Implements the Map step on the CPU (Minuet paper, section 5.1). The operations and results equal those of
// the kernels in kernels_templates/map. Host loops take the place of thread blocks.
#pragma once

#include "runtime/cpu/radix_sort.h"
#include "runtime/engine/map_operations.h"

namespace minuet {

/// Points to the arrays into which the workspace of the Map step is divided. Their sizes depend on MapLimits.
struct MapScratch {
  /// Each of the two arrays has room for MapLimits::capacity keys.
  void* keys[2] = {};
  /// Each of the two arrays has room for MapLimits::capacity row numbers.
  u32* rows[2] = {};
  u32* bins = nullptr;  // Holds the digit counts of the radix sort.
  /// Holds a count for each chunk of work, and then the sum of the counts of all earlier chunks. There are
  /// max(1, max_volume) * max(1, cpu_chunks(capacity)) elements.
  i64* chunks = nullptr;
  i64 bytes = 0;  // Holds the size of all arrays together.
};

/// Places the arrays in `workspace`. If `workspace` is null, only `bytes` of the result is meaningful.
MapScratch place_map_scratch(const MapLimits& limits, void* workspace);

/// Writes the bounds of `count` coordinates to `bounds`, arranged as in CloudState::bounds. If there are no
/// coordinates, the least ones are INT_MAX and the greatest ones INT_MIN.
void find_bounds_cpu(ThreadPool& pool, i32 ndim, const i32* coordinates, i64 count, i32* bounds);
void find_layout_cpu(ThreadPool& pool, i32 ndim, const LayoutRequest& request);
template <class Key>
void build_coords_cpu(ThreadPool& pool, const MapScratch& scratch, const BuildCoordsRequest& request);
template <class Key>
void downsample_cpu(ThreadPool& pool, const MapScratch& scratch, const DownsampleRequest& request);
template <class Key>
void search_cpu(ThreadPool& pool, const SearchRequest& request);
void count_pairs_cpu(ThreadPool& pool, const MapScratch& scratch, i64 query_count, const MapView& map);
template <class Key>
void unpack_cpu(ThreadPool& pool, const Coords& coords, const KeyLayout& layout, i32* coordinates);
void compact_pairs_cpu(ThreadPool& pool, const PairsRequest& request);

#define MINUET_CPU_MAP_OPS(prefix, Key)                                                                  \
  prefix template void build_coords_cpu<Key>(ThreadPool&, const MapScratch&, const BuildCoordsRequest&); \
  prefix template void downsample_cpu<Key>(ThreadPool&, const MapScratch&, const DownsampleRequest&);    \
  prefix template void search_cpu<Key>(ThreadPool&, const SearchRequest&);                               \
  prefix template void unpack_cpu<Key>(ThreadPool&, const Coords&, const KeyLayout&, i32*);
MINUET_CPU_MAP_OPS(extern, u32)
MINUET_CPU_MAP_OPS(extern, u64)

}  // namespace minuet
