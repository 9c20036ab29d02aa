// This file finds the job to which an item of a launch belongs (shared/parameter_kernels.h).
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/shared/parameter_kernels.h"

namespace minuet {

/// Returns the last job that starts at or before `item`, which must belong to a job. `job` is a job that
/// starts at or before the item too, such as that of an earlier item.
template <class Params>
MINUET_HD i32 job_of_item(const Params& p, i64 item, i32 job) {
  if (item < p.starts[job + 1]) return job;
  i32 end = p.count;
  while (end - job > 1) {
    const i32 middle = (job + end) / 2;
    if (p.starts[middle] <= item) {
      job = middle;
    } else {
      end = middle;
    }
  }
  return job;
}

/// Calls work(job, inner) for each item of this thread, where `inner` is the item's number within its job.
template <i32 Threads, class Params, class Work>
MINUET_DEVICE void for_each_item(const Params& p, const Work& work) {
  const i64 items = p.starts[p.count];
  i32 job = 0;
  for (i64 item = grid_thread(Threads); item < items; item += grid_threads(Threads)) {
    job = job_of_item(p, item, job);
    work(p.jobs[job], item - p.starts[job]);
  }
}

}  // namespace minuet
