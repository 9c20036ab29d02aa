// Launches that overlap: the next one's blocks start where this one's leave room, and wait for it themselves.
// From sm_90 on; elsewhere, and in a launch that is not programmatic, both do nothing.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// What comes behind this launch may start, as soon as all of its blocks have come here. Behind the wait, so
/// that no more than two launches are under way.
MINUET_DEVICE void allow_next_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Until all that came before has ended. Every thread of every block waits, before it reads or writes what
/// another launch has to do with: only then is the end of this launch the end of all before it, too. Loads of
/// what others write are fresh(), or `Fresh` (core/vector.h): read-only ones are moved in front of the wait.
MINUET_DEVICE void wait_for_last_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Both, at the start of a kernel that has nothing to do before.
MINUET_DEVICE void follow_last_launch() {
  wait_for_last_launch();
  allow_next_launch();
}

/// Reads what another launch may have written.
template <class T>
MINUET_HD T fresh(const T* address) {
  return *address;
}

}  // namespace minuet
