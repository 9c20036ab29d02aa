// This file prepares a search for neighbours (neighbours.h) in an index (voxel_index.h).
#pragma once

#include "kernels_templates/core/early_loads.h"
#include "kernels_templates/map/children.h"

namespace minuet {

/// Holds the parts of the index that a search reads often. They are copied word by word.
struct NeighbourLevels {
  IndexKeys keys, query_keys;
  IndexLevel sources, queries;
};
/// Holds what is the same for all queries of one search for a kernel map. It is in shared memory.
template <i32 Ndim>
struct NeighbourSearch : NeighbourLevels {
  i32 least_batch, greatest_batch;  // These are the bounds of batches in the sources' index.
  /// These are copies of the members of KernelGeometry, whose constructor shared memory cannot run.
  i32 kernel_size[Ndim], step[Ndim], origin[Ndim], volume;
  i32 same_level;  // Equals 1 if both sides are the same level of one index, and 0 otherwise.
  /// The next two arrays describe, for each axis, the first voxel of a query's window if is_window is 1. It
  /// is `scale` times the query's voxel, plus `first`.
  i32 scale[Ndim], first[Ndim];
  i32 is_window;  // Equals 1 if Window can look up all offsets together, and 0 otherwise.
  /// Gives the number of offsets per axis if Window can look them up together and this number is 2 or 3 on
  /// all axes. Otherwise it is 0.
  i32 window_size;
  /// Gives the place of the child at each offset relative to that of the first child (child_place()). It is
  /// valid if the kernel's offsets lead to the children of a voxel (children.h).
  i32 child_places[1 << Ndim];
};

/// Limits the number of kernel offsets of a window (Window) on one axis.
constexpr i32 kLongestLine = 9;
/// Returns true if `size` offsets on the axis are few enough for a window (Window), which must always lie
/// in at most two blocks on each axis.
MINUET_HD constexpr bool is_narrow(i32 ndim, i32 axis, i32 size) {
  return size <= (1 << block_bits(ndim, axis)) + 1 && size <= kLongestLine;
}

/// Copies the levels of a search to shared memory. All `Threads` threads of a block must call this function.
/// No copy depends on another one, so that a thread block waits for device memory only once.
template <i32 Threads>
MINUET_DEVICE void copy_levels(NeighbourLevels& to, const VoxelIndex& sources, i32 source_level,
                               const VoxelIndex& queries, i32 query_level) {
  constexpr i32 kKeyWords = sizeof(IndexKeys) / sizeof(u32), kLevelWords = sizeof(IndexLevel) / sizeof(u32);
  constexpr i32 kWords = 2 * (kKeyWords + kLevelWords);
  static_assert(sizeof(NeighbourLevels) == kWords * sizeof(u32), "its parts follow each other without gaps");
  for (i32 word = static_cast<i32>(threadIdx.x); word < kWords; word += Threads) {
    const i32 of_levels = word - 2 * kKeyWords;
    const void* from = word < kKeyWords ? &sources.keys : &queries.keys;
    if (of_levels >= 0)
      from = of_levels < kLevelWords ? &sources.level[source_level] : &queries.level[query_level];
    const i32 of_part = of_levels >= 0 ? of_levels % kLevelWords : word % kKeyWords;
    reinterpret_cast<u32*>(&to)[word] = load_early_if<4>(true, from, 4 * of_part).words[0];
  }
}

/// Finds whether and how Window can look up the neighbours, if search.sources and search.queries are set. One
/// warp calls this function.
template <i32 Ndim>
MINUET_DEVICE void find_window(NeighbourSearch<Ndim>& search, const KernelGeometry& geometry,
                               bool same_level) {
  const i32 a = static_cast<i32>(threadIdx.x & 31u);  // Lane a handles axis a.
  bool is_narrow_axis = true;
  i32 size = 0;
  if (a < Ndim) {
    const i32 fine = search.sources.stride[a], coarse = search.queries.stride[a];
    // A shift replaces the slow division, because nearly all strides are powers of two.
    const i32 shift = search.sources.shift[a];
    size = geometry.kernel_size[a];
    const i32 scale = shift >= 0 ? coarse >> shift : coarse / fine;
    // A window (Window) has 32-bit voxel coordinates. If they overflowed, it would contain voxels of the
    // other end of the range.
    const i32 first = shift >= 0 ? geometry.origin[a] >> shift : geometry.origin[a] / fine;
    const i64 reach = axis_reach(geometry, a) + fine, most = 0x7fffffff;
    is_narrow_axis = geometry.step[a] == fine && scale * fine == coarse &&
                     first * fine == geometry.origin[a] && is_narrow(Ndim, a, size) &&
                     search.queries.lowest[a] - reach > -most && search.queries.highest[a] + reach < most;
    search.scale[a] = scale;
    search.first[a] = first;
    search.kernel_size[a] = size;
    search.step[a] = geometry.step[a];
    search.origin[a] = geometry.origin[a];
  }
  // A window (Window) with four axes could lie in 16 blocks, which are too many to look up together.
  const bool is_window = __all_sync(~0u, is_narrow_axis) && Ndim < 4;
  const i32 first_size = __shfl_sync(~0u, size, 0);
  const bool is_cube = __all_sync(~0u, a >= Ndim || size == first_size);
  // A map with a list of offsets has a volume that is not the product of these sizes, so that it is limited.
  const bool may_have_children = __all_sync(~0u, size <= 2);
  if (may_have_children && a < geometry.volume && a < 1 << Ndim)
    search.child_places[a] = child_place<Ndim>(geometry, 0, a);
  if (a == 0) {
    search.volume = geometry.volume;
    search.same_level = same_level ? 1 : 0;
    search.is_window = is_window ? 1 : 0;
    search.window_size = is_window && is_cube && (size == 2 || size == 3) ? size : 0;
  }
}

/// Prepares a search. All threads of a block must call this function. It begins with a barrier, because
/// other threads may still use `search` for the previous search. It reads only what clear_index has written
/// and nothing that later launches write. A kernel may therefore call it before wait_for_last_launch()
/// (core/early_loads.h), unless the launch right before it is clear_index.
template <i32 Ndim, i32 Threads>
MINUET_DEVICE void begin_search(NeighbourSearch<Ndim>& search, const KernelGeometry& geometry,
                                const VoxelIndex& sources, i32 source_level, const VoxelIndex& queries,
                                i32 query_level) {
  __syncthreads();
  copy_levels<Threads>(search, sources, source_level, queries, query_level);
  if (threadIdx.x == 0) {
    search.least_batch = read_early(sources.least);
    search.greatest_batch = read_early(sources.greatest);
  }
  __syncthreads();
  if (threadIdx.x < 32) find_window(search, geometry, &sources == &queries && source_level == query_level);
  __syncthreads();
}

}  // namespace minuet
