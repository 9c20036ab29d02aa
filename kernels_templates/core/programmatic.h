// This file supports programmatic dependent launch, in which blocks of the next launch start as soon as this
// launch leaves room, and wait for its end themselves. allow_next_launch() and wait_for_last_launch() do
// nothing before sm_90 and in a launch without the programmatic attribute.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Allows the next launch to start once all blocks of this one have called this function. Call it after
/// wait_for_last_launch(), so that at most two launches of a stream run at once.
MINUET_DEVICE void allow_next_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until all earlier launches have ended. A thread must call it before it reads or writes anything that
/// another launch accesses, except for reads as in core/early_loads.h. At least one thread of every block
/// must call it, also in blocks that end early. Otherwise the end of this launch would not imply the end of
/// all launches before it. Data that other launches write must be read with fresh() or with `Fresh` loads
/// (core/vector.h), because the compiler may move read-only loads in front of the wait.
MINUET_DEVICE void wait_for_last_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Waits for the earlier launches, then allows the next. A kernel calls it before any other access to device
/// memory than early reads (core/early_loads.h).
MINUET_DEVICE void follow_last_launch() {
  wait_for_last_launch();
  allow_next_launch();
}

/// Reads a word that another launch may have written. It does not use the read-only cache.
template <class T>
MINUET_HD T fresh(const T* address) {
  return *address;
}

}  // namespace minuet
