// One radix sort: its launches, in order. The Map step sorts with it, and a test holds it against CUB.
#pragma once

#include "runtime/cuda/launcher.h"
#include "runtime/cuda/map_workspace.h"

namespace minuet {

/// Kernels for one key width, for keys with the caller's rows or for keys alone.
struct SortKernels {
  RadixHistogramSpec histogram_spec;
  RadixPassSpec pass_spec;
  Kernel<RadixHistogramParams> histogram;
  Kernel<RadixBinsParams> bins;
  Kernel<RadixPassParams> pass;
};

/// What is sorted: the first *count of `capacity` keys, by the bits [begin_bit, end_bit), stably.
struct SortRange {
  const i32* count = nullptr;  // device
  i64 capacity = 0;            // fewer than 2^30
  i32 begin_bit = 0;
  i32 end_bit = 0;
};

/// The ping-pong, and a state that was zeroed; `tiles` is how many it has room for.
struct SortMemory {
  void* keys[2] = {};
  u32* rows[2] = {};  // null without rows
  SortState state;
  i64 tiles = 0;
};

/// Enqueues. Sorts what lies in half 0; `half` is where the result will lie.
llvm::Error enqueue_sort(Launcher& launcher, const SortKernels& kernels, const SortRange& range,
                         const SortMemory& memory, i32& half);

}  // namespace minuet
