// This file reads weights for an image (shared/fused_image.h) one element at a time, wherever they are.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/parameter_kernels.h"

namespace minuet {

/// Returns the word of an image of `io` that holds `low`, and in images of 16 bits `high` too.
template <i32 ElementBytes>
MINUET_HD u32 image_word(DType io, float low, [[maybe_unused]] float high) {
  if constexpr (ElementBytes == 4) {
    return io == DType::TF32 ? round_to_tf32(bits_of(low)) : bits_of(low);
  } else {
    return io == DType::BF16 ? to_16_bit_pair<DType::BF16>(low, high) : to_16_bit_pair<DType::F16>(low, high);
  }
}

/// Returns the place of the first weight of an offset, in elements.
MINUET_HD i64 offset_place(const WeightImageJob& job, i32 offset) {
  u32 index = static_cast<u32>(offset);
  i64 place = 0;
  MINUET_NO_UNROLL
  for (i32 axis = job.kernel_rank - 1; axis > 0; --axis) {
    const u32 size = static_cast<u32>(job.kernel_shape[axis]), next = index / size;
    place += (index - next * size) * job.kernel_strides[axis];
    index = next;
  }
  return place + index * job.kernel_strides[0];
}

/// Returns word `word` of the vector at `places` of a stage.
template <i32 ElementBytes>
MINUET_HD u32 read_image_word(const WeightImageJob& job, const FusedStage& stage,
                              const FusedPlacesOfVector& places, i32 word) {
  constexpr i32 kPerWord = 4 / ElementBytes;
  u32 bits = 0;
  float values[2] = {};
  MINUET_UNROLL
  for (i32 e = 0; e < kPerWord; ++e) {
    const FusedWeight weight = fused_weight_in(job.layout, job.shape, stage, places, word, e);
    if (weight.offset < 0) continue;
    const i64 place =
        offset_place(job, weight.offset) + weight.in * job.in_stride + weight.out * job.out_stride;
    if (job.stored == DType::F32) {
      values[e] = read_only(static_cast<const float*>(job.weight) + place);
    } else {
      bits |= static_cast<u32>(read_only(static_cast<const u16*>(job.weight) + place)) << 16 * e;
    }
  }
  return job.stored == DType::F32 ? image_word<ElementBytes>(job.layout.io, values[0], values[1]) : bits;
}

/// Writes vector number item % stage_vectors of kImageStages consecutive stages, because the place of a
/// vector within a stage costs more to compute than to use.
template <i32 ElementBytes>
MINUET_HD void write_image_vectors(const WeightImageJob& job, u32 item) {
  const u32 vectors = static_cast<u32>(job.shape.stage_vectors), stages = static_cast<u32>(job.shape.stages);
  const u32 first = item / vectors * kImageStages, vector = item % vectors;
  const FusedPlacesOfVector places = fused_places_of_vector(job.layout, static_cast<i32>(vector));
  MINUET_NO_UNROLL
  for (u32 s = first; s < first + kImageStages && s < stages; ++s) {
    const FusedStage stage = fused_stage(job.layout, job.shape, s);
    Vector<16> values;
    MINUET_UNROLL
    for (i32 w = 0; w < 4; ++w) values.words[w] = read_image_word<ElementBytes>(job, stage, places, w);
    store_vector(job.image, (static_cast<i64>(s) * vectors + vector) * 16, values);
  }
}

}  // namespace minuet
