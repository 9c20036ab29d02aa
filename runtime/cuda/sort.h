// The launches of one radix sort. The Map step uses it, and a test compares it with CUB.
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

/// The range to sort: the first *count of `capacity` keys, stably, by the bits [begin_bit, end_bit).
struct SortRange {
  const i32* count = nullptr;  // device
  i64 capacity = 0;            // fewer than 2^30
  i32 begin_bit = 0;
  i32 end_bit = 0;
};

/// The two halves of the ping-pong buffers and a zeroed state with room for `tiles` tiles.
struct SortMemory {
  void* keys[2] = {};
  u32* rows[2] = {};  // null without rows
  SortState state;
  i64 tiles = 0;
};

/// Enqueues a sort of the keys in half 0. `half` receives the half that will hold the result.
llvm::Error enqueue_sort(Launcher& launcher, const SortKernels& kernels, const SortRange& range,
                         const SortMemory& memory, i32& half);

}  // namespace minuet
