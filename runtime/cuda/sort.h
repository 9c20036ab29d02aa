// Enqueues the launches of one radix sort. The Map step uses it, and a test compares it with CUB.
#pragma once

#include "runtime/cuda/launch_grid.h"
#include "runtime/cuda/launcher.h"
#include "runtime/cuda/map_workspace.h"

namespace minuet {

/// Holds the kernels for one key width. They sort keys alone, or keys together with row numbers.
struct SortKernels {
  RadixHistogramSpec histogram_spec;
  RadixPassSpec pass_spec;
  Kernel<RadixHistogramParams> histogram;
  Kernel<RadixPassParams> pass;
};

/// Describes what to sort: the first *count of `capacity` keys, by the bits [begin_bit, end_bit). The sort is
/// stable.
struct SortRange {
  const i32* count = nullptr;  // Points to device memory.
  i64 capacity = 0;            // It must be less than 2^30.
  i32 begin_bit = 0;
  i32 end_bit = 0;
};

/// Holds the two buffers between which a sort alternates, and a zeroed state with room for `tiles` tiles.
struct SortMemory {
  void* keys[2] = {};
  u32* rows[2] = {};  // They are null if keys are sorted alone.
  SortState state;
  i64 tiles = 0;
};

/// Returns the number of words of the state of a sort with room for `tiles` tiles in each of `passes` passes.
inline i64 sort_state_words(i32 passes, i64 tiles) {
  return kMaxRadixPasses + i64{passes} * kRadixBins * (1 + tiles);
}
/// Divides these words into the parts of the state. They must be set to 0 before the sort.
inline SortState divide_sort_state(u32* words, i32 passes) {
  u32* const bins = words + kMaxRadixPasses;
  return {bins, words, bins + i64{passes} * kRadixBins, nullptr};
}

/// Returns the index in SortMemory::keys and SortMemory::rows that holds the result of a sort by `bits` bits.
constexpr i32 sorted_half(i32 bits) { return radix_passes(bits) % 2; }

/// Enqueues a sort of the keys in memory.keys[0]. `half` receives sorted_half() of the number of bits.
llvm::Error enqueue_sort(Launcher& launcher, const SortKernels& kernels, const SortRange& range,
                         const SortMemory& memory, i32& half);

}  // namespace minuet
