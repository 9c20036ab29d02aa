// This file loads fragments for mma() from shared memory. Each lane passes the address of a row of 16 bytes
// and receives words of other lanes' rows.
#pragma once

#include "kernels_templates/core/shared_address.h"

namespace minuet {

#if !defined(__CUDA_ARCH__)
template <i32 Count>
struct LdmatrixLane {
  u32* words;
  const void* row;
};

template <i32 Count>
void ldmatrix_of_warp(void* const* lanes) {
  const auto lane = [&](i32 l) { return *static_cast<const LdmatrixLane<Count>*>(lanes[l]); };
  for (i32 l = 0; l < 32; ++l) {
    for (i32 i = 0; i < Count; ++i) {
      const void* row = lane(8 * i + l / 4).row;
      if (reinterpret_cast<u64>(row) % 16 != 0) shim::fail("a row of ldmatrix is aligned to 16 bytes");
      __builtin_memcpy(lane(l).words + i, static_cast<const char*>(row) + l % 4 * 4, 4);
    }
  }
}

inline void ldmatrix_transposed_of_warp(void* const* lanes) {
  const auto lane = [&](i32 l) { return *static_cast<const LdmatrixLane<4>*>(lanes[l]); };
  for (i32 l = 0; l < 32; ++l) {
    for (i32 i = 0; i < 4; ++i) {
      u16 halves[2];
      for (i32 h = 0; h < 2; ++h) {
        const void* row = lane(8 * i + l % 4 * 2 + h).row;
        if (reinterpret_cast<u64>(row) % 16 != 0) shim::fail("a row of ldmatrix is aligned to 16 bytes");
        __builtin_memcpy(halves + h, static_cast<const char*>(row) + l / 4 * 2, 2);
      }
      lane(l).words[i] = halves[0] | static_cast<u32>(halves[1]) << 16;
    }
  }
}
#endif

/// Loads words[i] of lane l from word l % 4 of the row whose address lane 8 i + l / 4 passes. All 32 threads
/// of the warp must call it. `row` is ignored in lanes 8 * Count and above. The function works for two 16-bit
/// elements or one 32-bit element per word.
template <i32 Count>
MINUET_DEVICE void ldmatrix(u32 (&words)[Count], const void* row) {
  static_assert(Count == 1 || Count == 2 || Count == 4, "one, two or four matrices of 8 rows");
#if defined(__CUDA_ARCH__)
  if constexpr (Count == 4) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
  } else if constexpr (Count == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "r"(shared_address(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(words[0])
                 : "r"(shared_address(row))
                 : "memory");
  }
#else
  LdmatrixLane<Count> mine{words, row};
  shim::warp_meet(~0u, true, ldmatrix_of_warp<Count>, &mine);
#endif
}

/// Loads four matrices of 8 rows of 8 elements of 16 bits, transposed. Lane 8 i + r passes the address of row
/// r of matrix i. words[i] of lane l gets the elements of column l / 4 of matrix i in rows 2 (l % 4) and
/// 2 (l % 4) + 1. All 32 threads of the warp must call it.
MINUET_DEVICE void ldmatrix_transposed(u32 (&words)[4], const void* row) {
#if defined(__CUDA_ARCH__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
#else
  LdmatrixLane<4> mine{words, row};
  shim::warp_meet(~0u, true, ldmatrix_transposed_of_warp, &mine);
#endif
}

}  // namespace minuet
