// This file computes thread indices for grid-stride loops. Kernels stride their items over the grid, so that
// they work with any grid size.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Returns this thread's index in a grid of blocks of `threads` threads.
MINUET_DEVICE i64 grid_thread(i32 threads) {
  return static_cast<i64>(blockIdx.x) * threads + static_cast<i32>(threadIdx.x);
}

/// Returns the number of threads of the whole grid, which is the stride of a grid-stride loop.
MINUET_DEVICE i64 grid_threads(i32 threads) { return static_cast<i64>(gridDim.x) * threads; }

/// Reads a word that no thread of the kernel writes, through the read-only cache.
template <class T>
MINUET_HD T read_only(const T* address) {
#if defined(__CUDA_ARCH__)
  return __ldg(address);
#else
  return *address;
#endif
}

/// Returns a / b for non-negative a and b. Operands are nearly always below 2^32, where a 32-bit division is
/// several times faster on a device.
MINUET_HD i64 quotient(i64 a, i64 b) {
  if (((a | b) >> 32) == 0) return static_cast<u32>(a) / static_cast<u32>(b);
  return a / b;
}

/// Splits an item number into outer = item / row and inner = item % row, while the item advances by a fixed
/// stride. The class divides only at construction, because a 64-bit division per item would cost more than
/// the rest of a copying kernel.
class RowIterator {
 public:
  /// `row`, the number of items per row, must be >= 0. If it is 0, there are no items, and outer() and
  /// inner() are meaningless.
  MINUET_HD RowIterator(i64 first, i64 stride, i64 row)
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

/// Returns threadIdx.x and reads it again at each call, so that the compiler need not keep values derived
/// from it in registers. block_in_grid() does the same for blockIdx.x.
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
