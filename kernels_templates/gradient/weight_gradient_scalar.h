// The kernel weight_gradient_scalar computes the same sums as weight_gradient without tensor cores, for
// channels that these cannot copy or would mostly waste, such as those of depthwise convolutions.
//
// Threads of consecutive output channels are side by side. Each thread sums the products of its output
// channel and `inputs` input channels of the channel's group, pair by pair in fp32.
#pragma once

#include "kernels_templates/core/vector.h"
#include "kernels_templates/gradient/part_steps.h"

namespace minuet {

/// Returns the operand in column `column` of a row, or 0 if it is not there.
template <DType T>
MINUET_HD float operand_if(bool is_there, const void* rows, i64 row, i64 ld, i64 column) {
  constexpr i32 kBytes = dtype_bytes(T);
  const i64 place = is_there ? row * ld + column : 0;
  float value = 0;
  to_floats<T>(to_operand<T>(load_vector_if<kBytes, true>(is_there, rows, place * kBytes)), &value);
  return value;
}

template <WeightGradientScalarSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(weight_gradient_threads(S)) void weight_gradient_scalar(
    MINUET_PARAMS(WeightGradientParams) p) {
  follow_last_launch();
  const i32 tiles = p.tiles_in * p.tiles_out;
  const i32 block = static_cast<i32>(blockIdx.x), walkers = static_cast<i32>(gridDim.x) / tiles;
  const i32 thread = static_cast<i32>(threadIdx.x), tile = block % tiles;
  OffsetLanes lanes(p);
  const i32 steps = lanes.steps(), parts = static_cast<i32>(parts_of(steps, p.wanted_parts));
  const i32 out = tile % p.tiles_out * S.tile_out + thread % S.tile_out;
  const i32 in = (tile / p.tiles_out * S.lanes + thread / S.tile_out) * S.inputs;
  const bool is_output = out < p.groups * p.group_outputs;
  const i64 first_input = static_cast<i64>(out / p.group_outputs) * p.group_inputs;
  for (i32 part = block / tiles; part < parts; part += walkers) {
    const i32 first = static_cast<i32>(first_step_of_part(part, parts, steps));
    const i32 end = static_cast<i32>(first_step_of_part(part + 1, parts, steps));
    PartSegments<most_segment_steps(S.io)> segments(p, lanes, part, first, end);
    for (; segments.has_steps(); segments.pass()) {
      float sums[S.inputs] = {};
      for (i32 step = segments.begin(); step < segments.end(); ++step) {
        StepPlace& place = segments.place();
        place.visit(step);
        MINUET_UNROLL
        for (i32 pair = 0; pair < place.pairs(); ++pair) {
          const auto [input_row, gradient_row] = rows_of_pair(p, place.first_pair() + pair);
          const bool is_pair = is_output && input_row >= 0;
          const float gradient = operand_if<S.io>(is_pair, p.gradient, gradient_row, p.gradient_ld, out);
          MINUET_UNROLL
          for (i32 i = 0; i < S.inputs; ++i) {
            const bool is_there = is_pair && in + i < p.group_inputs;
            sums[i] +=
                operand_if<S.io>(is_there, p.input, input_row, p.input_ld, first_input + in + i) * gradient;
          }
        }
      }
      float* const slot = segments.slot();
      MINUET_UNROLL
      for (i32 i = 0; i < S.inputs; ++i) {
        if (!is_output) break;
        float& stored = slot[static_cast<i64>(in + i) * p.layout.columns + out];
        stored = segments.adds() ? stored + sums[i] : sums[i];
      }
    }
  }
}

}  // namespace minuet
