// This file reads memory before wait_for_last_launch() (core/programmatic.h), so that the loads are in flight
// while the launch before ends.
//
// Once a launch has started, all blocks of the launch before it have called allow_next_launch(), and they
// call it after their own wait. So all earlier launches have ended, and a kernel may read what they have
// written, but nothing that the launch right before it writes. This needs a kernel that is always launched
// right behind a certain other one, or whose caller says that the launch before does not write what it reads.
// A kernel that may be the first of a call must not read early, because it does not know what the launch
// before writes.
//
// These loads bypass the L1 cache, which could keep old contents of the memory.
#pragma once

#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/counts.h"

namespace minuet {

/// Loads `Bytes` bytes at `base` + `byte` if `present`. Otherwise, the result is zeros. Like
/// load_vector_if(), it is one predicated instruction.
template <i32 Bytes>
MINUET_DEVICE Vector<Bytes> load_early_if(bool present, const void* base, i64 byte) {
#if defined(__CUDA_ARCH__)
  const auto address = __cvta_generic_to_global(static_cast<const char*>(base) + byte);
  const u32 predicate = present;
  Vector<Bytes> v = zero_vector<Bytes>();
  if constexpr (Bytes == 16) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(v.words[0]), "+r"(v.words[1]), "+r"(v.words[2]), "+r"(v.words[3])
                 : "l"(address), "r"(predicate));
  } else if constexpr (Bytes == 8) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.cg.v2.u32 {%0, %1}, [%2]; }"
                 : "+r"(v.words[0]), "+r"(v.words[1])
                 : "l"(address), "r"(predicate));
  } else if constexpr (Bytes == 4) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.cg.u32 %0, [%1]; }"
                 : "+r"(v.words[0])
                 : "l"(address), "r"(predicate));
  } else {
    static_assert(Bytes == 2, "whole elements");
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.global.cg.u16 %0, [%1]; }"
                 : "+h"(v.words[0])
                 : "l"(address), "r"(predicate));
  }
  return v;
#else
  return present ? load_vector<Bytes>(base, byte) : zero_vector<Bytes>();
#endif
}

/// Loads the number at `address`.
MINUET_DEVICE i32 read_early(const i32* address) {
  return static_cast<i32>(load_early_if<4>(true, address, 0).words[0]);
}

/// Returns numbers[index], or `missing` if the pointer is null or the index negative.
MINUET_DEVICE float load_early_or(const float* numbers, i64 index, float missing) {
  const bool present = numbers != nullptr && index >= 0;
  const float loaded = float_of(load_early_if<4>(present, numbers, 4 * index).words[0]);
  return present ? loaded : missing;
}

/// Does what count_within() does.
MINUET_DEVICE i64 early_count_within(const i32* count, i64 most) {
  if (count == nullptr) return most;
  const i32 given = read_early(count);
  return count_within(&given, most);
}

/// Does what load_row_if() does, but bypasses the L1 cache.
MINUET_DEVICE i32 load_early_row_if(bool present, const i32* address) {
#if defined(__CUDA_ARCH__)
  i32 row;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.s32 %0, -1; @p ld.global.cg.s32 %0, [%1]; }"
               : "=&r"(row)
               : "l"(__cvta_generic_to_global(address)), "r"(static_cast<u32>(present)));
  return row;
#else
  return load_row_if(present, address);
#endif
}

}  // namespace minuet
