// This file distributes the items of many jobs over one launch. The items of all jobs are concatenated, and
// threads stride over all of them.
#pragma once

#include "kernels_templates/core/grid.h"

namespace minuet {

/// Fills starts[j] with the number of items of the jobs before j. starts[jobs] is the total. items(j) returns
/// the number of items of job j. All threads of a block must call it, and `starts` must be in shared memory.
template <i32 Threads, i32 Most, class Items>
MINUET_DEVICE void find_starts(i64 (&starts)[Most + 1], i32 jobs, const Items& items) {
  __shared__ i64 counts[Most];
  for (i32 j = static_cast<i32>(threadIdx.x); j < jobs; j += Threads) counts[j] = items(j);
  __syncthreads();
  for (i32 j = static_cast<i32>(threadIdx.x); j <= jobs; j += Threads) {
    i64 before = 0;
    for (i32 i = 0; i < j; ++i) before += counts[i];
    starts[j] = before;
  }
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
