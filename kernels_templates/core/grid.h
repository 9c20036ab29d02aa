// Who am I, and how work is walked: every kernel works on any grid, so items are strided over it.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// This thread's number in a grid of blocks of `threads` threads.
MINUET_DEVICE i64 grid_thread(i32 threads) {
  return static_cast<i64>(blockIdx.x) * threads + static_cast<i32>(threadIdx.x);
}

/// Threads of the whole grid: the stride of a grid-stride loop.
MINUET_DEVICE i64 grid_threads(i32 threads) { return static_cast<i64>(gridDim.x) * threads; }

/// Reads a word that no thread of the kernel writes.
template <class T>
MINUET_HD T read_only(const T* address) {
#if defined(__CUDA_ARCH__)
  return __ldg(address);
#else
  return *address;
#endif
}

/// a / b of numbers that are not negative and nearly always below 2^32, where a device divides several
/// times faster.
MINUET_HD i64 quotient(i64 a, i64 b) {
  if (((a | b) >> 32) == 0) return static_cast<u32>(a) / static_cast<u32>(b);
  return a / b;
}

/// Walks item = outer * row + inner with a fixed stride and divides only once: a 64-bit division an
/// item would cost more than the rest of a copying kernel.
class RowWalk {
 public:
  /// row >= 0; a row of 0 items has none, and the walk must not be read.
  MINUET_HD RowWalk(i64 first, i64 stride, i64 row)
      : row_(row < 1 ? 1 : row),
        outer_(first / row_),
        inner_(first % row_),
        step_outer_(stride / row_),
        step_inner_(stride % row_) {}

  MINUET_HD void advance() {
    outer_ += step_outer_;
    inner_ += step_inner_;
    if (inner_ >= row_) {
      inner_ -= row_;
      ++outer_;
    }
  }
  MINUET_HD i64 outer() const { return outer_; }
  MINUET_HD i64 inner() const { return inner_; }

 private:
  i64 row_, outer_, inner_, step_outer_, step_inner_;
};

/// threadIdx.x and blockIdx.x, read anew: what is made of them need not stay in registers until it is wanted
/// again.
MINUET_DEVICE u32 thread_in_block() {
#if defined(__CUDA_ARCH__)
  u32 number;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
  return number;
#else
  return threadIdx.x;
#endif
}
MINUET_DEVICE u32 block_in_grid() {
#if defined(__CUDA_ARCH__)
  u32 number;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
  return number;
#else
  return blockIdx.x;
#endif
}

}  // namespace minuet
