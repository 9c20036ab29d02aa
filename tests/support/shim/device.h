// The CUDA names that kernels use, for running them on the CPU. Include before any kernel header.
//
// One OS thread runs everything: a block's threads are fibers that take turns between barriers, in an
// order the test picks, so that a missing barrier shows; blocks run one after another.
#pragma once

#include <cstdint>

// Blocks run one after another, so one copy a kernel instance is one copy a block.
#define __shared__ static

struct ShimIndex {
  unsigned x = 0, y = 0, z = 0;
};
extern ShimIndex threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
/// Also a barrier: how many threads of the block passed a true predicate.
int __syncthreads_count(int predicate);

inline int atomicMin(int* address, int value) {
  const int old = *address;
  *address = value < old ? value : old;
  return old;
}
inline int atomicMax(int* address, int value) {
  const int old = *address;
  *address = value > old ? value : old;
  return old;
}
inline unsigned atomicOr(unsigned* address, unsigned value) {
  const unsigned old = *address;
  *address = old | value;
  return old;
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  const unsigned old = *address;
  *address = old + value;
  return old;
}
