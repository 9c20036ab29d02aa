// Forward search (paper 5.1.2): map[k][q] = the source row whose key is q + delta_k, or -1.
//
// One thread block a query block ("piece"), taken in turn by a grid of any size. The piece's number
// gives its offset k, source block i and place j by a search in piece_starts that the whole thread
// block does together; the source block is staged in shared memory, and each thread searches it for
// a few queries at once. Queries are made on the fly from the query keys: they are never stored.
#pragma once

#include "kernels_templates/core/search.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

/// The last i in [0, count) with starts[i] <= value; starts ascend, starts[0] <= value. Each round the
/// block's threads cut the range into that many parts: two rounds where one thread needs a dozen.
template <i32 Threads>
MINUET_DEVICE i64 find_share_by_block(const i32* starts, i64 count, i64 value) {
  i64 first = 0;
  while (count > 1) {
    const i64 part = (count + Threads - 1) / Threads;
    const i64 probe = static_cast<i64>(threadIdx.x) * part;
    const bool reached = probe < count && read_only(starts + first + probe) <= value;
    const i64 passed = (__syncthreads_count(reached) - 1) * part;
    first += passed;
    count = count - passed < part ? count - passed : part;
  }
  return first;
}

/// Queries [begin, end) of one piece, at offset `delta`, against one staged source block.
template <SearchKernelMapSpec S, class Key>
MINUET_DEVICE void search_piece(const Key* block, i32 block_size, i64 block_row, const Key* queries,
                                i64 begin, i64 end, Key delta, i32* map) {
  constexpr i32 kRounds = (S.query_block + S.threads - 1) / S.threads;
  constexpr i32 kAtOnce = kRounds < 4 ? kRounds : 4;
  for (i64 first = begin + threadIdx.x; first < end; first += kAtOnce * S.threads) {
    Key keys[kAtOnce];
    i32 positions[kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 query = first + u * S.threads;
      keys[u] = query < end ? static_cast<Key>(read_only(queries + query) + delta) : Key{0};
    }
    lower_bounds<S.source_block, kAtOnce, Key>(block, block_size, keys, positions);
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 query = first + u * S.threads;
      const bool hit = positions[u] < block_size && block[positions[u]] == keys[u];
      if (query < end) map[query] = hit ? static_cast<i32>(block_row + positions[u]) : -1;
    }
  }
}

template <SearchKernelMapSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void search_kernel_map(const SearchKernelMapParams p) {
  using Key = typename KeyOf<S.key>::Type;
  __shared__ Key block[S.source_block];
  const KeyLayout layout = with_ndim<S.ndim>(p.layout);
  const KernelGeometry geometry = with_ndim<S.ndim>(p.geometry);
  const i64 source_count = *p.source_count;
  const i64 query_count = *p.query_count;
  const i64 blocks = source_blocks(source_count, S.source_block);
  const i64 borders = blocks * geometry.volume;
  const i64 pieces = p.piece_starts[borders];
  const Key* sources = static_cast<const Key*>(p.source_keys);

  for (i64 piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const i64 border = find_share_by_block<S.threads>(p.piece_starts, borders, piece);
    const i64 k = border / blocks;
    const i64 block_row = (border - k * blocks) * S.source_block;
    const i64 left = source_count - block_row;
    const i32 block_size = static_cast<i32>(left < S.source_block ? left : S.source_block);
    MINUET_UNROLL
    for (i32 first = 0; first < S.source_block; first += S.threads) {
      const i32 i = first + threadIdx.x;
      if (i < block_size) block[i] = read_only(sources + block_row + i);
    }

    const i64 start = block_row == 0 ? 0 : p.borders[border - 1];
    const i64 begin = start + (piece - p.piece_starts[border]) * S.query_block;
    const i64 border_end = p.borders[border];
    const i64 end = begin + S.query_block < border_end ? begin + S.query_block : border_end;
    const Key delta = offset_key<Key>(layout, geometry, static_cast<i32>(k));
    __syncthreads();
    search_piece<S, Key>(block, block_size, block_row, static_cast<const Key*>(p.query_keys), begin, end,
                         delta, p.map + k * query_count);
    __syncthreads();  // the next piece overwrites the block
  }
}

}  // namespace minuet
