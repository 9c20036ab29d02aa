// The kernel order_blocks writes ViewJob::block_orders, the orders in which the fused kernel processes the
// blocks of a view's queries. There is one order per block height, and blocks whose queries have neighbours
// at the most offsets come first. Each thread block makes one order with a counting sort. If there are more
// than kMostSortedBlocks blocks, their order stays ascending, because the last blocks of a launch matter
// little then.
#pragma once

#include "kernels_templates/core/early_loads.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/core/votes.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

/// Returns the sort weight (block_weight()) of a block that consists of the blocks [first, end) of
/// kLeastBlockHeight queries, from the union of their masks.
MINUET_DEVICE i32 weigh_block(const ViewJob& job, i64 first, i64 end) {
  const i64 stride = blocks_of_height(job.ordered_stride, kLeastBlockHeight);
  i32 offsets = 0;
  for (i32 word = 0; word < mask_words(job.geometry.volume); ++word) {
    u32 all = 0;
    for (i64 block = first; block < end; ++block) all |= fresh(job.block_masks + word * stride + block);
    offsets += count_bits(all);
  }
  return block_weight(offsets, job.geometry.volume);
}

/// Calls visit(block, weigh(block)) for each block that this thread handles, and visit(block, -1) past the
/// last block. Several blocks are weighed before they are visited, so that their loads overlap. All threads
/// of a warp must call it.
template <i32 Threads, class Weigh, class Visit>
MINUET_DEVICE void for_each_block(i64 blocks, const Weigh& weigh, const Visit& visit) {
  constexpr i32 kAtOnce = 4;
  const i64 lane = threadIdx.x & 31u;
  for (i64 first = threadIdx.x; first - lane < blocks; first += kAtOnce * Threads) {
    i32 weights[kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 block = first + u * Threads;
      weights[u] = weigh(block < blocks ? block : blocks - 1);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 block = first + u * Threads;
      visit(block, block < blocks ? weights[u] : -1);
    }
  }
}

/// Replaces next[w] by the sum of next[v] over v < w. One warp calls it.
MINUET_DEVICE void sum_weights(u32* next) {
  static_assert(kMostBlockWeights == 64, "a lane has two weights");
  const u32 lane = threadIdx.x & 31u, first = next[2 * lane], own = first + next[2 * lane + 1];
  u32 sum = own;
  MINUET_UNROLL
  for (u32 distance = 1; distance < 32; distance *= 2) {
    const u32 below = __shfl_up_sync(~0u, sum, distance);
    if (lane >= distance) sum += below;
  }
  next[2 * lane] = sum - own;
  next[2 * lane + 1] = sum - own + first;
}

template <OrderBlocksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void order_blocks(MINUET_PARAMS(ViewsParams) p) {
  static_assert(S.threads >= kMostBlockWeights, "a thread has a weight");
  __shared__ u32 next[kMostBlockWeights];
  __shared__ u16 weights[kMostSortedBlocks];
  const i32 thread = static_cast<i32>(threadIdx.x);
  const i32 which = static_cast<i32>(blockIdx.x % kBlockHeightCount), height = kBlockHeights[which];
  const ViewJob& job = p.jobs[blockIdx.x / kBlockHeightCount];
  // The launch right before this one is order_rows or order_voxels, and neither writes numbers of queries.
  const i64 queries = read_early(job.query_count);
  follow_last_launch();
  if (job.order == nullptr) return;
  i32* const order = job.block_orders + block_order_begin(job.ordered_stride, which);
  const i64 blocks = blocks_of_height(queries, height), sorted = blocks <= kMostSortedBlocks ? blocks : 0;
  const i64 least = blocks_of_height(queries, kLeastBlockHeight), each = height / kLeastBlockHeight;
  const auto weigh = [&](i64 block) {
    const i64 first = block * each;
    return weigh_block(job, first, first + each < least ? first + each : least);
  };
  if (thread < kMostBlockWeights) next[thread] = 0;
  __syncthreads();
  for_each_block<S.threads>(sorted, weigh, [&](i64 block, i32 weight) {
    count_equal(next, weight);
    if (weight >= 0) weights[block] = static_cast<u16>(weight);
  });
  __syncthreads();
  if (thread < 32) sum_weights(next);
  __syncthreads();
  const auto weighed = [&](i64 block) { return i32{weights[block]}; };
  for_each_block<S.threads>(sorted, weighed, [&](i64 block, i32 weight) {
    const u32 place = count_equal(next, weight);
    if (weight >= 0) order[place] = static_cast<i32>(block);
  });
  for (i64 block = sorted + thread; block < blocks_of_height(job.ordered_stride, height); block += S.threads)
    order[block] = static_cast<i32>(block);
}

}  // namespace minuet
