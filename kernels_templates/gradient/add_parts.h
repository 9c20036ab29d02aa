// The kernel add_parts adds the sums of the parts of each offset (shared/gradient_kernels.h), and stores them
// as the gradient of a weight, or adds them to it. Offsets without pairs get 0.
//
// `split` threads of a block add the sums of the weights of `vector` consecutive output channels. Thread s
// adds parts s, s + split and so on of those that have the offset, in ascending order. Then the first thread
// adds the sums of the others to its own in the order of s. Consecutive threads have consecutive output
// channels.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

/// Returns where the gradient of a weight is stored.
MINUET_HD i64 place_of_weight(const AddPartsParams& p, i32 offset, i32 input, i32 output) {
  i64 place = input * p.input_stride + output * p.output_stride;
  for (i32 a = p.axes - 1; a > 0; --a) {
    const i32 outer = static_cast<i32>(quotient(offset, p.axis_sizes[a]));
    place += (offset - outer * p.axis_sizes[a]) * p.axis_strides[a];
    offset = outer;
  }
  return place + offset * p.axis_strides[0];
}

/// Stores the sums of the weights of consecutive output channels, or adds them to what is there, from `place`
/// on.
template <i32 Count>
MINUET_HD void store_weights(const AddPartsParams& p, i64 place, float (&sums)[Count]) {
  if constexpr (Count == 4) {
    if (p.stores_vectors != 0) {
      const i64 byte = place * i64{sizeof(float)};
      if (p.adds != 0) {
        float before[Count];
        to_floats<DType::F32>(load_vector_if<16, true>(true, p.weight_gradient, byte), before);
        MINUET_UNROLL
        for (i32 v = 0; v < Count; ++v) sums[v] += before[v];
      }
      store_vector(p.weight_gradient, byte, from_floats<DType::F32, 16>(sums));
      return;
    }
  }
  MINUET_UNROLL
  for (i32 v = 0; v < Count; ++v) {
    float* const target = p.weight_gradient + place + v * p.output_stride;
    *target = p.adds != 0 ? *target + sums[v] : sums[v];
  }
}

/// Adds the slots of `parts` parts to `sums`, in this order, from `slot` on and `stride` bytes apart.
template <i32 Count>
MINUET_HD void add_slots(float (&sums)[Count], const char* slot, i64 stride, i64 parts) {
  constexpr i32 kAtOnce = 4, kBytes = Count * static_cast<i32>(sizeof(float));
  for (i64 part = 0; part < parts; part += kAtOnce) {
    Vector<kBytes> vectors[kAtOnce];
    MINUET_UNROLL
    for (i32 i = 0; i < kAtOnce; ++i) {
      vectors[i] = load_vector_if<kBytes, true>(part + i < parts, slot, (part + i) * stride);
    }
    MINUET_UNROLL
    for (i32 i = 0; i < kAtOnce; ++i) {
      float values[Count];
      to_floats<DType::F32>(vectors[i], values);
      MINUET_UNROLL
      for (i32 v = 0; v < Count; ++v) sums[v] += values[v];
    }
  }
}

template <AddPartsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void add_parts(MINUET_PARAMS(AddPartsParams) p) {
  follow_last_launch();
  constexpr i32 kVectors = S.threads / S.split;
  __shared__ float shares[S.vector][S.threads];
  const i32 thread = static_cast<i32>(threadIdx.x), column = thread % kVectors, share = thread / kVectors;
  const i64 steps = fresh(p.first_step + p.volume), parts = fresh(p.first_step + p.volume + 1);
  const i32 row_vectors = p.outputs / S.vector;
  const i64 vectors = static_cast<i64>(p.volume) * p.inputs * row_vectors;
  for (i64 first = static_cast<i64>(blockIdx.x) * kVectors; first < vectors;
       first += static_cast<i64>(gridDim.x) * kVectors) {
    const i64 vector = first + column;
    const bool is_there = vector < vectors;
    const i64 row = is_there ? quotient(vector, row_vectors) : 0;  // Counts rows of output channels.
    const i32 offset = static_cast<i32>(quotient(row, p.inputs));
    const i32 input = static_cast<i32>(row - i64{offset} * p.inputs);
    const i32 output = static_cast<i32>(is_there ? vector - row * row_vectors : 0) * S.vector;
    const i64 begin = fresh(p.first_step + offset), end = fresh(p.first_step + offset + 1);
    float sums[S.vector] = {};
    if (is_there && begin < end) {
      const i64 part = part_of_step(begin, parts, steps) + share, last = part_of_step(end - 1, parts, steps);
      const i64 slot_bytes = p.layout.elements * i64{sizeof(float)};
      const float* const sum = p.sums + offset * p.layout.elements + place_in_slot(p.layout, input, output);
      const i64 count = part > last ? 0 : (last - part) / S.split + 1;
      add_slots(sums, reinterpret_cast<const char*>(sum) + part * slot_bytes, S.split * slot_bytes, count);
    }
    if constexpr (S.split > 1) {
      MINUET_UNROLL
      for (i32 v = 0; v < S.vector; ++v) shares[v][thread] = sums[v];
      __syncthreads();
      if (share == 0) {
        MINUET_UNROLL
        for (i32 s = 1; s < S.split; ++s) {
          MINUET_UNROLL
          for (i32 v = 0; v < S.vector; ++v) sums[v] += shares[v][s * kVectors + column];
        }
      }
      __syncthreads();
    }
    if (share != 0 || !is_there) continue;
    store_weights(p, place_of_weight(p, offset, input, output), sums);
  }
}

}  // namespace minuet
