// map[k][q] = the source row of q + offset k, or -1, by an index of the sources' cells (cell_index.h); the
// masks of the queries and the counts of the offsets with it.
//
// One thread a query. The offsets are walked with the last axis fastest, along which cells lie beside each
// other: most look-ups find what the one before has loaded. All threads of a warp are at one offset, whose
// hits they count by vote.
#pragma once

#include "kernels_templates/map/cell_rows.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

/// The offsets of a kernel in order, in cells of a level.
template <i32 Ndim>
class OffsetWalk {
 public:
  MINUET_DEVICE OffsetWalk(const KernelGeometry& geometry, const CellGrid& grid) {
    MINUET_UNROLL
    for (i32 a = 0; a < Ndim; ++a) {
      size_[a] = geometry.kernel_size[a];
      step_[a] = geometry.step[a] / grid.stride[a + 1] * grid.weight[a + 1];
      at_[a] = 0;
      offset_ -= (size_[a] - 1) / 2 * step_[a];
    }
  }
  MINUET_DEVICE i64 offset() const { return offset_; }
  MINUET_DEVICE void advance() {
    MINUET_UNROLL
    for (i32 a = Ndim - 1; a >= 0; --a) {
      offset_ += step_[a];
      if (++at_[a] < size_[a]) return;
      offset_ -= size_[a] * step_[a];
      at_[a] = 0;
    }
  }

 private:
  i64 step_[Ndim], offset_ = 0;
  i32 size_[Ndim], at_[Ndim];
};

/// Fields of the query's key.
template <i32 Ndim, class Key>
MINUET_DEVICE i64 cell_of_key(const KeyLayout& layout, const CellGrid& grid, Key key) {
  u64 fields[Ndim + 1];
  MINUET_UNROLL
  for (i32 f = 0; f <= Ndim; ++f) fields[f] = key_field(layout, key, f);
  return cell_of(grid, fields, Ndim + 1);
}

template <SearchCellsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void search_cells(const SearchCellsParams p) {
  using Key = typename KeyOf<S.key>::Type;
  static_assert(S.threads % 32 == 0, "whole warps vote");
  constexpr i32 kBlockCounts = 128;  // offsets that a block counts for itself
  __shared__ u32 counts[kBlockCounts];
  const CellSearch& search = p.searches[blockIdx.x / static_cast<u32>(p.blocks)];
  const KeyLayout layout = with_ndim<S.ndim>(p.layout->keys);
  const CellGrid grid = p.index.grids->levels[search.source_level];
  const i64 queries = *search.query_count;
  const i32 volume = search.geometry.volume;
  for (i32 k = threadIdx.x; k < kBlockCounts; k += S.threads) counts[k] = 0;
  __syncthreads();

  const i64 lane = threadIdx.x & 31u, stride = static_cast<i64>(p.blocks) * S.threads;
  // All lanes of a warp go on together: those past the last query vote too.
  for (i64 q = grid_thread(S.threads) % stride; q - lane < queries; q += stride) {
    const bool asks = q < queries;
    const i64 center =
        asks ? cell_of_key<S.ndim>(layout, grid, read_only(static_cast<const Key*>(search.query_keys) + q))
             : 0;
    CellRows rows(p.index, grid);
    OffsetWalk<S.ndim> walk(search.geometry, grid);
    u32 mask = 0;
    for (i32 k = 0; k < volume; ++k, walk.advance()) {
      const i32 row = asks ? rows.find(center + walk.offset()) : -1;
      if (asks) search.rows[k * queries + q] = row;
      if (row >= 0) mask |= 1u << k % 32;
      if (asks && (k % 32 == 31 || k + 1 == volume)) {
        search.masks[k / 32 * queries + q] = mask;
        mask = 0;
      }
      const u32 hits = __popc(__ballot_sync(~0u, row >= 0));
      if (lane == 0 && hits != 0) atomicAdd(k < kBlockCounts ? counts + k : search.counts + k, hits);
    }
  }
  __syncthreads();
  for (i32 k = threadIdx.x; k < kBlockCounts && k < volume; k += S.threads) {
    if (counts[k] != 0) atomicAdd(search.counts + k, counts[k]);
  }
}

}  // namespace minuet
