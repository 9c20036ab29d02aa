// Sorts keys by a stable radix sort from the least significant digit up. The keys are sorted alone or with
// the rows that they came from.
#pragma once

#include "codegen/base/thread_pool.h"

namespace minuet {

/// This is the number of items of one task. It is fixed, so that results do not depend on the number of
/// threads.
constexpr i64 kCpuChunk = 16384;
constexpr i64 cpu_chunks(i64 items) { return (items + kCpuChunk - 1) / kCpuChunk; }

/// Returns the bytes that the sort of `count` keys needs for its bins.
constexpr i64 radix_bins_bytes(i64 count) { return cpu_chunks(count) * 256 * 4; }

/// Holds two buffers of one array. The sort alternates between them and leaves the result in `now`.
template <class T>
struct PingPong {
  T* now = nullptr;
  T* next = nullptr;
  void turn() {
    T* other = next;
    next = now;
    now = other;
  }
};

/// Sorts by the bits [0, total_bits). If rows.now is null, only the keys are sorted.
template <class Key>
void radix_sort(ThreadPool& pool, i64 count, i32 total_bits, PingPong<Key>& keys, PingPong<u32>& rows,
                u32* bins);

extern template void radix_sort(ThreadPool&, i64, i32, PingPong<u32>&, PingPong<u32>&, u32*);
extern template void radix_sort(ThreadPool&, i64, i32, PingPong<u64>&, PingPong<u32>&, u32*);

}  // namespace minuet
