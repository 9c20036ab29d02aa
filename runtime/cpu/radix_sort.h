// Sorts keys by a stable radix sort from the least significant digit up. The keys are sorted alone or with
// the rows that they came from.
#pragma once

#include "codegen/base/thread_pool.h"

namespace minuet {

/// A task of the thread pool processes this many items. The number is fixed, so that results do not depend on
/// the number of threads.
constexpr i64 kCpuChunk = 16384;
constexpr i64 cpu_chunks(i64 items) { return (items + kCpuChunk - 1) / kCpuChunk; }

/// Returns the size in bytes of the array `bins` that radix_sort() needs for `count` keys.
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

/// Sorts keys by their bits [0, total_bits), and moves `rows` along with the keys unless rows.now is null.
/// `bins` is temporary memory of radix_bins_bytes(count) bytes.
template <class Key>
void radix_sort(ThreadPool& pool, i64 count, i32 total_bits, PingPong<Key>& keys, PingPong<u32>& rows,
                u32* bins);

extern template void radix_sort(ThreadPool&, i64, i32, PingPong<u32>&, PingPong<u32>&, u32*);
extern template void radix_sort(ThreadPool&, i64, i32, PingPong<u64>&, PingPong<u32>&, u32*);

}  // namespace minuet
