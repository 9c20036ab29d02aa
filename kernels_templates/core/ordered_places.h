// This file helps to sort the queries of views. A view is one direction of a kernel map (ViewJob), and a
// place is a position in the sorted order of its queries. The functions find the query of each place and
// write the place's mask.
#pragma once

#include "kernels_templates/core/early_loads.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/view_kernels.h"

namespace minuet {

/// Holds exclusive prefix sums over the views (ViewJob) of a launch. `queries` counts the queries of the
/// views that are to be sorted. `blocks` counts the blocks of consecutive queries, in their own or in sorted
/// order, that the launch processes. Each of these blocks belongs to one view.
struct ViewStarts {
  i64 queries[kMostViews + 1], blocks[kMostViews + 1];
};
/// Fills `starts`, which must be in shared memory. takes(job) returns true if the launch processes the
/// queries of the view `job`. If `Early` is true, the numbers of queries are read as in core/early_loads.h.
/// All threads of a block must call this function, which ends with a barrier.
template <i32 Threads, bool Early, class Takes>
MINUET_DEVICE void find_view_starts(ViewStarts& starts, const ViewsParams& p, const Takes& takes) {
  const i32 j = static_cast<i32>(threadIdx.x);
  if (j < 32) {
    const bool is_sorted = j < p.job_count && p.jobs[j].order != nullptr;
    i64 queries = 0;
    if constexpr (Early) {
      if (is_sorted) queries = read_early(p.jobs[j].query_count);
    } else {
      if (is_sorted) queries = *p.jobs[j].query_count;
    }
    store_starts<kMostViews>(starts.queries, p.job_count, queries);
    const bool is_taken = is_sorted && takes(p.jobs[j]);
    store_starts<kMostViews>(starts.blocks, p.job_count, is_taken ? blocks_of_height(queries, Threads) : 0);
  }
  __syncthreads();
}

/// Describes the place that one thread handles, which is a position in the sorted order of the queries of a
/// view (ViewJob), and the query there. Consecutive threads of a block have consecutive places of one view.
struct OrderedPlace {
  i32 place;
  bool is_there;  // This is false in a view's last block for threads past the last query.
  i32 query;
};
MINUET_DEVICE OrderedPlace find_place(const ViewJob& job, const u32* sorted, i64 block_begin) {
  const i32 place = static_cast<i32>(block_begin) + static_cast<i32>(threadIdx.x);
  const bool is_there = place < *job.query_count;
  const i32 query = is_there ? static_cast<i32>(fresh(sorted + place)) : 0;
  if (is_there) job.order[place] = job.query_ids ? fresh(job.query_ids + query) : query;
  return {place, is_there, query};
}

/// Waits until both warps of this thread's pair have called this function. Pair i consists of the warps 2 i
/// and 2 i + 1 of the block. A block has 16 barriers, and __syncthreads() uses barrier 0, so that it has at
/// most 15 pairs.
MINUET_DEVICE void sync_two_warps() {
#if defined(__CUDA_ARCH__)
  asm volatile("bar.sync %0, 64;" ::"r"(threadIdx.x / 64 + 1) : "memory");
#else
  __syncthreads();
#endif
}

/// Writes the masks of a view's queries (ViewJob) in sorted order, word by word, and computes the unions of
/// the masks of 32 and of kPositionGroup consecutive places, which are positions in that order.
template <i32 Threads>
class OrderedMasks {
  static_assert(kLeastBlockHeight == 32 && kPositionGroup == 64 && Threads % kPositionGroup == 0 &&
                    Threads <= 15 * kPositionGroup,
                "a lane has a place, and two warps read together");

 public:
  struct Word {
    u32 own;  // Holds the mask word of the query of this thread's place, or 0 past the last query.
    /// Holds the union of this mask word over kPositionGroup places of the sorted order, which are those of
    /// two warps. Each of these places gets an entry in ViewJob::ordered_rows for every offset in the union.
    u32 union_bits;
  };
  /// Writes word `word` of the mask of the query at the place `at`, and of the union mask of the 32 places of
  /// the warp. All threads of a block must call it.
  MINUET_DEVICE Word put(const ViewJob& job, const OrderedPlace& at, i32 word) {
    __shared__ u32 of_warps[2][Threads / 32];
    const u32 own = at.is_there ? fresh(job.masks + word * i64{*job.query_count} + at.query) : 0u;
    const u32 of_warp = __reduce_or_sync(~0u, own);
    if (at.is_there) job.ordered_masks[word * job.ordered_stride + at.place] = own;
    const i32 warp = static_cast<i32>(threadIdx.x / 32);
    turn_ ^= 1;
    if ((threadIdx.x & 31u) == 0) {
      of_warps[turn_][warp] = of_warp;
      const i64 stride = blocks_of_height(job.ordered_stride, kLeastBlockHeight);
      if (at.is_there) job.block_masks[word * stride + at.place / kLeastBlockHeight] = of_warp;
    }
    // Two buffers alternate, so one barrier per call is enough. Slow threads may still read the buffer of the
    // previous call.
    sync_two_warps();
    return {own, of_warp | of_warps[turn_][warp ^ 1]};
  }

 private:
  i32 turn_ = 0;
};

/// Replaces each row that is not -1 by names[row]. `names` is ViewJob::query_ids or ViewJob::row_ids.
template <i32 Count>
MINUET_DEVICE void name_rows(const i32* names, i32 (&found)[Count]) {
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u) found[u] = load_row_if<true>(found[u] >= 0, names + found[u]);
}

}  // namespace minuet
