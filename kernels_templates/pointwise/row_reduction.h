// This file combines numbers of the threads that process a row together. All of them get the same result. The
// order of the operations is fixed, so that results repeat bit by bit.
#pragma once

#include "kernels_templates/core/convert.h"
#include "kernels_templates/shared/pointwise_functions.h"

namespace minuet {

/// Holds a number and the channel that it comes from.
struct Ranked {
  float value;
  i32 channel;
};

/// The following structs name operations. An operation has the value `kNeutral`, which changes no other, and
/// does not depend on the order of its two operands.
struct SumOf {
  MINUET_HD static float neutral() { return 0.0f; }
  MINUET_HD static float combine(float a, float b) { return a + b; }
  MINUET_DEVICE static float shuffle(float value, i32 distance) {
    return __shfl_xor_sync(~0u, value, distance);
  }
};
/// The maximum ignores NaN, because the sum behind it finds every NaN of a row.
struct MaximumOf {
  MINUET_HD static float neutral() { return float_of(kFloatInfinity | ~kFloatMagnitude); }
  MINUET_HD static float combine(float a, float b) { return b > a ? b : a; }
  MINUET_DEVICE static float shuffle(float value, i32 distance) {
    return __shfl_xor_sync(~0u, value, distance);
  }
};
/// The largest number is that of the lowest channel. A channel of -1 stands for no number.
struct LargestOf {
  MINUET_HD static Ranked neutral() { return {0.0f, -1}; }
  MINUET_HD static Ranked combine(Ranked a, Ranked b) {
    if (a.channel < 0 || b.channel < 0) return a.channel < 0 ? b : a;
    if (is_larger(b.value, a.value)) return b;
    return is_larger(a.value, b.value) || a.channel < b.channel ? a : b;
  }
  MINUET_DEVICE static Ranked shuffle(Ranked ranked, i32 distance) {
    return {__shfl_xor_sync(~0u, ranked.value, distance), __shfl_xor_sync(~0u, ranked.channel, distance)};
  }
};

/// Combines the values of `Lanes` consecutive threads. `Lanes` is a power of two that is at most 32, or the
/// number of all threads of the block. If it is at most 32, all threads of a warp must call this function
/// together, and warps may call it different numbers of times. If it is larger, all threads of the block must
/// call it together, because they wait for each other.
template <class Operation, i32 Lanes, class Value>
MINUET_DEVICE Value combine_lanes(Value value) {
  MINUET_UNROLL
  for (i32 distance = Lanes < 32 ? Lanes / 2 : 16; distance > 0; distance /= 2) {
    value = Operation::combine(value, Operation::shuffle(value, distance));
  }
  if constexpr (Lanes > 32) {
    constexpr i32 kWarps = Lanes / 32;
    __shared__ Value of_warps[kWarps];
    __syncthreads();  // All threads have read the results of an earlier call.
    if ((threadIdx.x & 31u) == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warps[0];
    MINUET_UNROLL
    for (i32 warp = 1; warp < kWarps; ++warp) value = Operation::combine(value, of_warps[warp]);
  }
  return value;
}

}  // namespace minuet
