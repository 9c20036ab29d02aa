// This file has binary searches over sorted arrays.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"

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

/// Returns the first place in [first, end) that is not before the sought one, or `end`. `is_before` is true
/// for places in front of the sought one only. All lanes of a warp must call it.
template <class IsBefore>
MINUET_DEVICE i64 find_by_warp(i64 first, i64 end, const IsBefore& is_before) {
  const i64 lane = threadIdx.x % 32;
  while (first < end) {
    const i64 step = (end - first + 31) / 32, probe = first + (lane + 1) * step - 1;
    const i64 before = count_bits(__ballot_sync(~0u, probe < end && is_before(probe)));
    // The probes in front are before the sought place, and the next probe is not.
    const i64 next = first + (before + 1) * step - 1;
    first += before * step;
    if (next < end) end = next;
  }
  return first;
}

}  // namespace minuet
