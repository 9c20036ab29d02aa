// This file distributes the items of many jobs over one launch. The items of all jobs are concatenated, and
// threads stride over all of them.
#pragma once

#include "kernels_templates/core/grid.h"

namespace minuet {

/// Sets starts[j] to the sum of `items` over the lanes before lane j, for each of the `jobs` jobs, and
/// starts[jobs] to the sum of all. One warp calls this function, and lane j has the number of items of job j.
template <i32 Most>
MINUET_DEVICE void store_starts(i64 (&starts)[Most + 1], i32 jobs, i64 items) {
  static_assert(Most <= 32, "a lane has a job");
  const i32 lane = static_cast<i32>(threadIdx.x & 31u);
  MINUET_UNROLL
  for (i32 distance = 1; distance < 32; distance *= 2) {
    const i64 below = __shfl_up_sync(~0u, items, distance);
    if (lane >= distance) items += below;
  }
  if (lane == 0) starts[0] = 0;
  if (lane < jobs) starts[lane + 1] = items;
}

/// Fills starts[j] with the number of items of the jobs before j. starts[jobs] is the total. items(j) returns
/// the number of items of job j. All threads of a block, at least 32, must call this function, and `starts`
/// must be in shared memory. It ends with a barrier.
template <i32 Most, class Items>
MINUET_DEVICE void find_starts(i64 (&starts)[Most + 1], i32 jobs, const Items& items) {
  const i32 thread = static_cast<i32>(threadIdx.x);
  if (thread < 32) store_starts<Most>(starts, jobs, thread < jobs ? items(thread) : 0);
  __syncthreads();
}

/// Finds the job that contains each of one thread's items. The items must be given in ascending order.
class JobIterator {
 public:
  MINUET_HD explicit JobIterator(const i64* starts) : starts_(starts) {}

  /// Returns the index of the job that contains `item`, which must be less than the number of items of all
  /// jobs.
  MINUET_HD i32 advance(i64 item) {
    while (item >= starts_[job_ + 1]) ++job_;
    return job_;
  }
  /// Returns the item's index within its job. Call it after advance(item).
  MINUET_HD i64 inner(i64 item) const { return item - starts_[job_]; }

 private:
  const i64* starts_;
  i32 job_ = 0;
};

}  // namespace minuet
