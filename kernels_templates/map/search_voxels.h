// The kernel search_voxels looks up, for each query and kernel offset, the row of the source in an index
// of the sources (voxel_index.h). It sets bit k % 32 of masks[k / 32][q] if query q has a source at offset
// k. Optionally it adds the number of such queries to counts[k], and sets rows[k][q] to the source row or
// -1.
//
// Each thread handles one query. All threads of a warp process the same offsets at a time, so that they
// can count their sources together (count_votes()).
#pragma once

#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/votes.h"
#include "kernels_templates/map/children.h"
#include "kernels_templates/map/neighbours.h"

namespace minuet {

/// Limits the number of kernel offsets whose sources a thread block counts in shared memory. It counts those
/// of later offsets in global memory.
constexpr i32 kCountedOffsets = 512;

/// Collects the bits of a query's mask, writes each word of the mask as soon as it is full, and counts the
/// bits per offset.
class MaskWriter {
 public:
  MINUET_DEVICE MaskWriter(const VoxelSearch& search, i64 query, i64 queries, u32* counts)
      : search_(search), query_(query), queries_(queries), counts_(counts) {}

  /// Appends `count` bits, at most 32, to the mask. All lanes of a warp must call this function.
  MINUET_DEVICE void put(u32 bits, i32 count) {
    bits_ |= static_cast<u64>(bits) << filled_;
    filled_ += count;
    if (filled_ >= 32) write();
  }
  MINUET_DEVICE void finish() {
    if (filled_ > 0) write();
  }

 private:
  MINUET_DEVICE void write() {
    const u32 word = static_cast<u32>(bits_), hits = count_votes(word);
    if (query_ < queries_) search_.masks[word_ * queries_ + query_] = word;
    const i32 offset = word_ * 32 + static_cast<i32>(threadIdx.x & 31u);
    if (hits != 0 && search_.counts != nullptr)
      atomicAdd(offset < kCountedOffsets ? counts_ + offset : search_.counts + offset, hits);
    bits_ >>= 32;
    filled_ -= 32;
    ++word_;
  }

  const VoxelSearch& search_;
  const i64 query_, queries_;
  u32* const counts_;
  u64 bits_ = 0;
  i32 filled_ = 0, word_ = 0;
};

/// Looks up the neighbours of query `q` as a window (Window). A lane past the last query writes nothing,
/// but must take part in the counting. `Size` has the same meaning as in Window.
template <i32 Ndim, i32 Size, bool Rows, i32 Threads>
MINUET_DEVICE void search_window(const NeighbourSearch<Ndim>& setup, const VoxelSearch& search, i64 q,
                                 i64 queries, u32* counts, WindowBlocks<Ndim, Threads>& blocks) {
  const bool is_query = q < queries;
  const Neighbours<Ndim> neighbours(setup, is_query ? q : queries - 1);
  const auto window = neighbours.template window<Size, Rows>(~0u, blocks);
  MaskWriter mask(search, q, queries, counts);
  if constexpr (Ndim == 3 && Size == 3 && !Rows) {
    mask.put(is_query ? window.mask() : 0u, 27);
    return mask.finish();
  }
  i32* to = Rows ? search.rows + q : nullptr;
  const i32 length = Size > 0 ? Size : setup.kernel_size[Ndim - 1];
  const auto search_line = [&](i32 line) {
    LineVoxels found = window.line(setup, line);
    mask.put(is_query ? found.bits : 0u, length);
    if constexpr (Rows) {
      for (i32 i = 0; i < length; ++i, to += queries) {
        const i32 row = found.take(i);
        if (is_query) *to = row;
      }
    }
  };
  if constexpr (Size > 0) {
    constexpr i32 kLines = Ndim == 1 ? 1 : Ndim == 2 ? Size : Size * Size;
    MINUET_UNROLL
    for (i32 line = 0; line < kLines; ++line) search_line(line);
  } else {
    for (i32 line = 0; line < setup.volume / length; ++line) search_line(line);
  }
  mask.finish();
}
/// Looks up the neighbours of query `q`, each kernel offset by itself.
template <i32 Ndim, bool Rows>
MINUET_DEVICE void search_each_offset(const NeighbourSearch<Ndim>& setup, const VoxelSearch& search, i64 q,
                                      i64 queries, u32* counts) {
  const bool is_query = q < queries;
  const Neighbours<Ndim> neighbours(setup, is_query ? q : queries - 1);
  MaskWriter mask(search, q, queries, counts);
  VoxelFinder<Ndim> finder(setup);
  for (i32 k = 0; k < setup.volume; ++k) {
    const i32 row = neighbours.at_offset(finder, k);
    if (Rows && is_query) search.rows[k * queries + q] = row;
    mask.put(is_query && row >= 0 ? 1u : 0u, 1);
  }
  mask.finish();
}

/// Looks up the children (children.h) of query `q`, which all lie in one block (VoxelBlock) of the
/// sources' level.
template <i32 Ndim, bool Rows>
MINUET_DEVICE void search_children(const NeighbourSearch<Ndim>& setup, const VoxelSearch& search, i64 q,
                                   i64 queries, u32* counts) {
  const bool is_query = q < queries;
  const i64 query = is_query ? q : queries - 1;
  const IndexLevel& level = setup.sources;
  const Voxel voxel = voxel_of_row<Ndim>(setup.query_keys, setup.queries, query).voxel;
  Voxel child = voxel;  // This becomes the first child of the query's voxel.
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) child.at[a + 1] *= setup.kernel_size[a];
  const SuperblockName name = superblock_name<Ndim>(setup.keys, level, child);
  FoundSuperblock superblock = read_superblock_at(level, first_slot(level, name.hash));
  settle(level, name.key, superblock);
  const i32 block_place = block_in_superblock<Ndim>(child);
  const FoundBlock block = read_block<true>(true, level, superblock, block_place);
  const i32 first_place = child_place<Ndim>(search.geometry, voxel_in_block<Ndim>(voxel), 0);
  u32 bits = 0;
  for (i32 k = 0; k < setup.volume && is_query; ++k) {
    const i32 place = first_place + setup.child_places[k];
    const bool has = block.has(place);
    const i32 row = has ? block.row(place) : -1;
    if (has) search.parents[row] = static_cast<i32>(q);
    if (Rows) search.rows[k * queries + q] = row;
    bits |= static_cast<u32>(has) << k;
  }
  if (is_query) search.children[q] = static_cast<i32>(superblock.block(block_place));
  MaskWriter mask(search, q, queries, counts);
  mask.put(bits, setup.volume);
  mask.finish();
}

/// Looks up the neighbours of query `q` at all kernel offsets.
template <i32 Ndim, bool Rows, i32 Threads>
MINUET_DEVICE void search_query(const NeighbourSearch<Ndim>& setup, const VoxelSearch& search, i64 q,
                                i64 queries, u32* counts, WindowBlocks<Ndim, Threads>& blocks) {
  if (search.children != nullptr) return search_children<Ndim, Rows>(setup, search, q, queries, counts);
  if constexpr (Ndim < 4) {
    if (setup.window_size == 3)
      return search_window<Ndim, 3, Rows>(setup, search, q, queries, counts, blocks);
    if (setup.window_size == 2)
      return search_window<Ndim, 2, Rows>(setup, search, q, queries, counts, blocks);
    if (setup.is_window != 0) return search_window<Ndim, 0, Rows>(setup, search, q, queries, counts, blocks);
  }
  search_each_offset<Ndim, Rows>(setup, search, q, queries, counts);
}

/// Holds the number of sources found at each offset in shared memory, and adds it to global memory.
template <i32 Threads>
class HitCounts {
 public:
  MINUET_DEVICE explicit HitCounts(u32 (&counts)[kCountedOffsets]) : counts_(counts) {}
  /// Adds the counts so far to the array of the last call, and begins the counting for the array `to`.
  /// Either array may be null. All threads of a block must call this function. A barrier must follow
  /// before they count.
  MINUET_DEVICE void begin(u32* to) {
    __syncthreads();
    for (i32 k = static_cast<i32>(threadIdx.x); k < kCountedOffsets; k += Threads) {
      if (to_ != nullptr && counts_[k] != 0) atomicAdd(to_ + k, counts_[k]);
      counts_[k] = 0;
    }
    to_ = to;
  }
  MINUET_DEVICE u32* counts() { return counts_; }

 private:
  u32 (&counts_)[kCountedOffsets];
  u32* to_ = nullptr;
};

template <SearchVoxelsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads,
                                   kSearchThreads /
                                       S.threads) void search_voxels(MINUET_PARAMS(SearchVoxelsParams) p) {
  follow_last_launch();
  static_assert(S.threads % 32 == 0, "whole warps vote");
  __shared__ NeighbourSearch<S.ndim> setup;
  __shared__ WindowBlocks<S.ndim, S.threads> window_blocks;
  __shared__ u32 counts[kCountedOffsets];
  // The following array counts in blocks of S.threads queries, each of which belongs to one search.
  __shared__ i64 starts[kMostVoxelSearches + 1];
  find_starts<kMostVoxelSearches>(starts, p.search_count, [&](i32 j) -> i64 {
    return (*p.searches[j].query_count + S.threads - 1) / S.threads;
  });
  JobIterator walk(starts);
  HitCounts<S.threads> hits(counts);
  // Gives the index of the search (VoxelSearch) for which `setup` is prepared, or -1 before the first.
  i32 begun = -1;
  // The searches differ in how long a block of queries takes, so each thread block takes blocks of all of
  // them.
  for (i64 block = blockIdx.x; block < starts[p.search_count]; block += gridDim.x) {
    const i32 j = walk.advance(block);
    const VoxelSearch& search = p.searches[j];
    if (begun != j) {
      hits.begin(search.counts);
      begin_search<S.ndim, S.threads>(setup, search.geometry, *search.sources.index, search.sources.level,
                                      *search.queries.index, search.queries.level);
    }
    begun = j;
    search_query<S.ndim, S.rows>(setup, search, walk.inner(block) * S.threads + threadIdx.x,
                                 *search.query_count, hits.counts(), window_blocks);
  }
  hits.begin(nullptr);
}

}  // namespace minuet
