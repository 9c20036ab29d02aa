// The kernel search_kernel_map is the forward search of the double-traversed binary search (Minuet paper,
// section 5.1.2). It sets map[k][q] to the source row whose key is q + delta_k, where delta_k is kernel
// offset k, or to -1.
//
// Each query block (a "piece") is handled by one thread block, and the pieces are strided over a grid of any
// size. The threads of the block search piece_starts together to find the piece's offset k, source block i
// and position. They stage the source block in shared memory, and each thread searches it for a few queries
// at once. The sums q + delta_k are computed on the fly and never stored.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/search.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

/// Returns the last i in [0, count) with starts[i] <= value. `starts` must ascend, with starts[0] <= value.
/// In each round the threads of the block cut the range into as many parts as there are threads. The search
/// therefore takes two rounds instead of the dozen steps that one thread would need.
template <i32 Threads>
MINUET_DEVICE i64 find_share_by_block(const i32* starts, i64 count, i64 value) {
  i64 first = 0;
  while (count > 1) {
    const i64 part = (count + Threads - 1) / Threads;
    const i64 probe = static_cast<i64>(threadIdx.x) * part;
    const bool reached = probe < count && fresh(starts + first + probe) <= value;
    const i64 passed = (__syncthreads_count(reached) - 1) * part;
    first += passed;
    count = count - passed < part ? count - passed : part;
  }
  return first;
}

/// Searches one source block, which is in shared memory and whose first row is block_row, for `count` queries
/// shifted by `delta`, the kernel offset. `map` and `queries` point to the first of these queries.
template <SearchKernelMapSpec S, class Key>
MINUET_DEVICE void search_piece(const Key* block, i32 block_size, i32 block_row, const Key* queries,
                                i32 count, Key delta, i32* map) {
  constexpr i32 kRounds = (S.query_block + S.threads - 1) / S.threads;
  constexpr i32 kAtOnce = kRounds < 4 ? kRounds : 4;
  for (i32 first = threadIdx.x; first < count; first += kAtOnce * S.threads) {
    Key keys[kAtOnce];
    i32 positions[kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i32 query = first + u * S.threads;
      keys[u] = query < count ? static_cast<Key>(fresh(queries + query) + delta) : Key{0};
    }
    find_candidates<next_power_of_two(S.source_block), kAtOnce, Key>(block, keys, positions);
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i32 query = first + u * S.threads;
      const bool hit = block[positions[u]] == keys[u] && positions[u] < block_size;
      if (query < count) map[query] = hit ? block_row + positions[u] : -1;
    }
  }
}

template <SearchKernelMapSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void search_kernel_map(MINUET_PARAMS(SearchKernelMapParams) p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  constexpr i32 kBlockSize = next_power_of_two(S.source_block);
  __shared__ Key block[kBlockSize];
  __shared__ Key shared_delta;
  const i64 source_count = *p.source_count;
  const i64 query_count = *p.query_count;
  const i64 blocks = source_blocks(source_count, S.source_block);
  const i64 borders = blocks * p.geometry.volume;
  const i32 pieces = p.piece_starts[borders];
  const Key* sources = static_cast<const Key*>(p.source_keys);

  for (i64 piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const i64 border = find_share_by_block<S.threads>(p.piece_starts, borders, piece);
    const i64 k = quotient(border, blocks);
    // One thread computes shared_delta for the block, because offset_key() divides by run-time kernel sizes.
    if (threadIdx.x == 0) {
      shared_delta = offset_key<Key>(with_ndim<S.ndim>(p.layout->keys), with_ndim<S.ndim>(p.geometry),
                                     static_cast<i32>(k));
    }
    const i64 block_row = (border - k * blocks) * S.source_block;
    const i64 left = source_count - block_row;
    const i32 block_size = static_cast<i32>(left < S.source_block ? left : S.source_block);
    MINUET_UNROLL
    for (i32 first = 0; first < kBlockSize; first += S.threads) {
      const i32 i = first + threadIdx.x;
      if (i < kBlockSize)
        block[i] = i < block_size ? fresh(sources + block_row + i) : static_cast<Key>(~Key{0});
    }

    const i64 start = block_row == 0 ? 0 : fresh(p.borders + border - 1);
    const i64 begin = start + (piece - fresh(p.piece_starts + border)) * S.query_block;
    const i64 rest = fresh(p.borders + border) - begin;
    const i32 count = static_cast<i32>(rest < S.query_block ? rest : S.query_block);
    __syncthreads();
    search_piece<S, Key>(block, block_size, static_cast<i32>(block_row),
                         static_cast<const Key*>(p.query_keys) + begin, count, shared_delta,
                         p.map + k * query_count + begin);
    // All threads must be done with the source block before it is overwritten for the next query block.
    __syncthreads();
  }
}

}  // namespace minuet
