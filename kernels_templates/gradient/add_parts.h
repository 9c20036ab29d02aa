// The kernel add_parts adds the sums of the parts of each offset (shared/gradient_kernels.h) in ascending
// order of the parts, and stores them as the gradient of a weight, or adds them to it. Offsets without pairs
// get 0. `split` threads of a block add every `split`-th part of one weight, and their sums are added in
// order. Consecutive threads have consecutive output channels.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

/// Returns where the gradient of a weight is stored.
MINUET_HD i64 place_of_weight(const AddPartsParams& p, i32 offset, i32 input, i32 output) {
  i64 place = input * p.input_stride + output * p.output_stride;
  for (i32 a = p.ndim - 1; a >= 0; --a) {
    place += offset % p.kernel_size[a] * p.offset_strides[a];
    offset /= p.kernel_size[a];
  }
  return place;
}

template <AddPartsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void add_parts(MINUET_PARAMS(AddPartsParams) p) {
  follow_last_launch();
  constexpr i32 kWeights = S.threads / S.split;
  __shared__ float shares[S.threads];
  const i32 thread = static_cast<i32>(threadIdx.x), column = thread % kWeights, share = thread / kWeights;
  const i64 steps = fresh(p.first_step + p.volume), parts = fresh(p.first_step + p.volume + 1);
  const i64 weights = static_cast<i64>(p.volume) * p.inputs * p.outputs;
  for (i64 first = static_cast<i64>(blockIdx.x) * kWeights; first < weights;
       first += static_cast<i64>(gridDim.x) * kWeights) {
    const i64 weight = first + column;
    const bool is_there = weight < weights;
    const i64 row = is_there ? quotient(weight, p.outputs) : 0;  // Counts rows of output channels.
    const i32 offset = static_cast<i32>(quotient(row, p.inputs));
    const i32 input = static_cast<i32>(row - i64{offset} * p.inputs);
    const i32 output = static_cast<i32>(is_there ? weight - row * p.outputs : 0);
    const i64 begin = fresh(p.first_step + offset), end = fresh(p.first_step + offset + 1);
    float sum = 0;
    if (is_there && begin < end) {
      const i64 last = part_of_step(end - 1, parts, steps);
      const float* const sums = p.sums + offset * p.layout.elements + place_in_slot(p.layout, input, output);
      MINUET_UNROLL
      for (i64 part = part_of_step(begin, parts, steps) + share; part <= last; part += S.split) {
        sum += fresh(sums + part * p.layout.elements);
      }
    }
    if constexpr (S.split > 1) {
      shares[thread] = sum;
      __syncthreads();
      if (share == 0) {
        MINUET_UNROLL
        for (i32 s = 1; s < S.split; ++s) sum += shares[s * kWeights + column];
      }
      __syncthreads();
    }
    if (share != 0 || !is_there) continue;
    float* const target = p.weight_gradient + place_of_weight(p, offset, input, output);
    *target = p.adds != 0 ? *target + sum : sum;
  }
}

}  // namespace minuet
