// Grid sizes. Pure arithmetic in 64 bits; no grid is empty.
#pragma once

#include <algorithm>

#include "codegen/choose/choice.h"

namespace minuet {

constexpr i64 kBlocksPerMultiprocessor = 64;  // grid-stride kernels; more than one wave evens out tails
constexpr i64 kHistogramBlocksPerMultiprocessor = 16;  // each block adds its bins to global memory

constexpr i64 ceil_div(i64 value, i64 step) { return (value + step - 1) / step; }

/// Returns the blocks of a kernel that strides over `items`, `per_block` of them at a time.
constexpr i64 stride_grid(i64 items, i64 per_block, i32 multiprocessors,
                          i64 blocks_per_multiprocessor = kBlocksPerMultiprocessor) {
  return std::clamp<i64>(ceil_div(items, per_block), 1, multiprocessors * blocks_per_multiprocessor);
}

/// Rounds `blocks` up to whole clusters.
constexpr i64 whole_clusters(i64 blocks, i32 cluster) { return ceil_div(blocks, cluster) * cluster; }

/// Returns the tiles, and so the blocks, of one pass over up to `capacity` keys.
constexpr i64 radix_tiles(const RadixPassSpec& spec, i64 capacity) {
  return std::max<i64>(ceil_div(capacity, static_cast<i64>(spec.threads) * spec.items_per_thread), 1);
}

/// Returns the maximum number of tiles of any sort of up to `capacity` keys.
inline i64 most_radix_tiles(const RadixPassChoice& pass, i64 capacity) {
  return std::max(radix_tiles(pass.small, std::min(capacity, kLargeSort)),
                  radix_tiles(pass.of(capacity), capacity));
}

constexpr i32 radix_passes(i32 bits) { return (bits + kRadixBits - 1) / kRadixBits; }

/// Returns the digit width of pass `pass`: 8 bits, as the histogram counts; the last digit may be narrower.
constexpr i32 radix_pass_bits(i32 bits, i32 pass) { return std::min(kRadixBits, bits - pass * kRadixBits); }

/// Returns the maximum number of query blocks for any borders: each source block of each offset adds at most
/// one that is not full.
constexpr i64 most_pieces(i64 sources, i64 queries, i32 volume, i32 source_block, i32 query_block) {
  return volume * (source_blocks(sources, source_block) + queries / query_block);
}

}  // namespace minuet
