// This file has binary searches over sorted arrays.
#pragma once

#include "kernels_templates/core/programmatic.h"

namespace minuet {

/// Returns the first i in [0, count) with keys[i] + delta > bound, or count if there is none. Sums wrap
/// around in the width of the key but stay in ascending order, because the key layout leaves free cells
/// around the coordinates (key_layout.h).
template <class Key>
MINUET_HD i64 first_greater(const Key* keys, i64 count, Key delta, Key bound) {
  i64 first = 0;
  while (count > 0) {
    const i64 half = count / 2;
    const bool right = static_cast<Key>(fresh(keys + first + half) + delta) <= bound;
    first = right ? first + half + 1 : first;
    count = right ? count - half - 1 : half;
  }
  return first;
}

/// Returns the first i in [0, count) with ends[i] > value, or count if there is none. If ends[i] is the end
/// of interval i and the intervals are adjacent, the result is the interval that contains `value`.
MINUET_HD i32 share_of(const i32* ends, i32 count, i64 value) {
  i32 first = 0;
  while (count > 0) {
    const i32 half = count / 2;
    const bool right = fresh(ends + first + half) <= value;
    first = right ? first + half + 1 : first;
    count = right ? count - half - 1 : half;
  }
  return first;
}

/// Returns the smallest power of two that is at least `value`, which must be at least 1.
MINUET_HD constexpr i32 next_power_of_two(i32 value) {
  i32 power = 1;
  while (power < value) power *= 2;
  return power;
}

/// Finds, for each of `Count` keys, the only i in [0, Size) where block[i] may equal the key. Size must be a
/// power of two and `block` ascending. Short blocks must be padded with the greatest key. The searches are
/// branch-free and advance in lockstep so that their loads overlap. Each step is one load, one comparison and
/// one addition.
template <i32 Size, i32 Count, class Key>
MINUET_HD void find_candidates(const Key* block, const Key* keys, i32* positions) {
  static_assert((Size & (Size - 1)) == 0, "halving steps need a power of two");
  MINUET_UNROLL
  for (i32 u = 0; u < Count; ++u) positions[u] = 0;
  MINUET_UNROLL
  for (i32 half = Size / 2; half > 0; half /= 2) {
    MINUET_UNROLL
    for (i32 u = 0; u < Count; ++u) positions[u] += block[positions[u] + half - 1] < keys[u] ? half : 0;
  }
}

}  // namespace minuet
