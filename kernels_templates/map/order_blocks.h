// block_orders: of each ordered view and height, the blocks of its places, those with the most offsets first.
// A block of the grid makes an order: a counting sort, whose keys are found twice.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

/// By the offsets that any query of the least blocks [first, end) has.
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

/// visit(block, its weight) of a thread's blocks; the masks of several are under way together.
template <i32 Threads, class Weigh, class Visit>
MINUET_DEVICE void for_each_block(i64 blocks, const Weigh& weigh, const Visit& visit) {
  constexpr i32 kAtOnce = 4;
  for (i64 first = threadIdx.x; first < blocks; first += kAtOnce * Threads) {
    i32 weights[kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 block = first + u * Threads;
      weights[u] = weigh(block < blocks ? block : blocks - 1);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      if (first + u * Threads < blocks) visit(first + u * Threads, weights[u]);
    }
  }
}

template <OrderBlocksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void order_blocks(const ViewsParams p) {
  follow_last_launch();
  static_assert(S.threads >= kMostBlockWeights, "a thread has a weight");
  __shared__ u32 next[kMostBlockWeights];
  const i32 thread = static_cast<i32>(threadIdx.x);
  for (u32 number = blockIdx.x; number < static_cast<u32>(p.job_count * kBlockHeightCount);
       number += gridDim.x) {
    const ViewJob& job = p.jobs[number / kBlockHeightCount];
    if (job.order == nullptr) continue;
    const i32 which = static_cast<i32>(number % kBlockHeightCount), height = kBlockHeights[which];
    i32* const order = job.block_orders + block_order_begin(job.ordered_stride, which);
    const i64 queries = *job.query_count, blocks = blocks_of_height(queries, height);
    const i64 least = blocks_of_height(queries, kLeastBlockHeight), each = height / kLeastBlockHeight;
    const auto weigh = [&](i64 block) {
      const i64 first = block * each;
      return weigh_block(job, first, first + each < least ? first + each : least);
    };
    if (thread < kMostBlockWeights) next[thread] = 0;
    __syncthreads();
    for_each_block<S.threads>(blocks, weigh, [&](i64, i32 weight) { atomicAdd(next + weight, 1u); });
    __syncthreads();
    if (thread == 0) {
      u32 before = 0;
      for (i32 weight = 0; weight < kMostBlockWeights; ++weight) {
        const u32 count = next[weight];
        next[weight] = before;
        before += count;
      }
    }
    __syncthreads();
    for_each_block<S.threads>(blocks, weigh, [&](i64 block, i32 weight) {
      order[atomicAdd(next + weight, 1u)] = static_cast<i32>(block);
    });
    for (i64 block = blocks + thread; block < blocks_of_height(job.ordered_stride, height);
         block += S.threads)
      order[block] = static_cast<i32>(block);
    __syncthreads();
  }
}

}  // namespace minuet
