// Computes the grid sizes of kernel launches. The functions are pure and use 64-bit arithmetic. No grid is
// empty.
#pragma once

#include <algorithm>

#include "codegen/choose/choice.h"

namespace minuet {

/// Limits the grids of grid-stride kernels. More than one wave of blocks evens out the load at the end of a
/// launch.
constexpr i64 kBlocksPerMultiprocessor = 64;
/// Limits the grids of histogram kernels. They have fewer blocks, because each block adds its bins to global
/// memory. With 16 blocks, these additions took 12 of the 28 us for 5 million keys on an H200.
constexpr i64 kHistogramBlocksPerMultiprocessor = 4;

constexpr i64 ceil_div(i64 value, i64 step) { return (value + step - 1) / step; }

/// Returns the number of blocks of a grid-stride kernel. Its blocks process `per_block` of the `items` items
/// at a time.
constexpr i64 stride_grid(i64 items, i64 per_block, i32 multiprocessors,
                          i64 blocks_per_multiprocessor = kBlocksPerMultiprocessor) {
  return std::clamp<i64>(ceil_div(items, per_block), 1, multiprocessors * blocks_per_multiprocessor);
}

/// Returns the number of blocks, of about `most_blocks` in a launch of several jobs, for a job that has
/// `items` of the launch's `all_items` items. The jobs then end at about the same time.
constexpr i64 blocks_of_job(i64 items, i64 all_items, i64 per_block, i64 most_blocks) {
  const i64 share = most_blocks * items / std::max<i64>(all_items, 1);
  return std::clamp<i64>(ceil_div(items, per_block), 1, std::max<i64>(share, 1));
}

/// Rounds `blocks` up to a multiple of the cluster size.
constexpr i64 whole_clusters(i64 blocks, i32 cluster) { return ceil_div(blocks, cluster) * cluster; }

/// Returns the number of tiles in one pass of a radix sort of up to `capacity` keys. A launch has one block
/// per tile.
constexpr i64 radix_tiles(const RadixPassSpec& spec, i64 capacity) {
  return std::max<i64>(ceil_div(capacity, static_cast<i64>(spec.threads) * spec.items_per_thread), 1);
}

/// Returns the largest number of tiles in one pass of any radix sort of up to `capacity` keys. Small sorts
/// may use smaller tiles than large ones.
inline i64 most_radix_tiles(const RadixPassChoice& pass, i64 capacity) {
  return std::max(radix_tiles(pass.small, std::min(capacity, kLargeSort)),
                  radix_tiles(pass.of(capacity), capacity));
}

constexpr i32 radix_passes(i32 bits) { return (bits + kRadixBits - 1) / kRadixBits; }

/// Returns the width of the digit that pass `pass` sorts by, in bits. The last digit may be narrower than the
/// others.
constexpr i32 radix_pass_bits(i32 bits, i32 pass) { return std::min(kRadixBits, bits - pass * kRadixBits); }

/// Returns the largest number of query blocks that the search for a kernel map can have. A query block has up
/// to `query_block` queries that are looked up in the same source block at the same kernel offset. Each pair
/// of source block and offset therefore adds at most one query block that is not full.
constexpr i64 most_pieces(i64 sources, i64 queries, i32 volume, i32 source_block, i32 query_block) {
  return volume * (source_blocks(sources, source_block) + queries / query_block);
}

}  // namespace minuet
