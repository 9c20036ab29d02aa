// This file reads 16 bytes at once and counts bits of 64-bit words. Words that other thread blocks of the
// same launch change are read past the L1 cache, which is not coherent.
#pragma once

#include "kernels_templates/core/vector.h"

namespace minuet {

struct WordPair {
  u64 first, second;
};

/// Reads 16 aligned bytes, which other thread blocks may be changing, in one access past the L1 cache.
MINUET_DEVICE WordPair read_current(const void* address) {
#if defined(__CUDA_ARCH__)
  WordPair pair;
  asm volatile("ld.global.cg.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.first), "=l"(pair.second)
               : "l"(__cvta_generic_to_global(address))
               : "memory");
  return pair;
#else
  const u64* const words = static_cast<const u64*>(address);
  return {words[0], words[1]};
#endif
}

MINUET_DEVICE u32 read_current_word(const u32* address) {
#if defined(__CUDA_ARCH__)
  u32 word;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(word) : "l"(__cvta_generic_to_global(address)) : "memory");
  return word;
#else
  return *address;
#endif
}

/// Reads 16 aligned bytes that only earlier launches wrote, so that the L1 cache may be used.
MINUET_DEVICE WordPair read_pair_if(bool present, const void* address) {
  const Vector<16> v = load_vector_if<16, true>(present, address, 0);
  return {v.words[0] | static_cast<u64>(v.words[1]) << 32, v.words[2] | static_cast<u64>(v.words[3]) << 32};
}
MINUET_DEVICE WordPair read_pair(const void* address) { return read_pair_if(true, address); }

/// Returns the number of set bits of a 64-bit word.
MINUET_HD i32 count_bits64(u64 bits) {
#if defined(__CUDA_ARCH__)
  return __popcll(static_cast<long long>(bits));
#else
  return __builtin_popcountll(bits);
#endif
}
/// Returns the index of the lowest set bit of a 64-bit word, in which at least one bit must be set.
MINUET_HD i32 lowest_bit64(u64 bits) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(bits)) - 1;
#else
  return __builtin_ctzll(bits);
#endif
}

}  // namespace minuet
