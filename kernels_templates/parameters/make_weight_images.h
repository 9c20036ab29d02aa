// The kernel make_weight_images writes the images (shared/fused_image.h) of several weights: image[i] =
// weight[fused_weight_of(i)], and 0 where the image is padded. Each thread writes the same vector of 16 bytes
// of kImageStages stages, because the place of a vector within a stage costs more to compute than to use.
#pragma once

#include "kernels_templates/core/vector.h"
#include "kernels_templates/parameters/job_of_item.h"

namespace minuet {

/// Returns the vector at `places` of a stage.
template <i32 ElementBytes>
MINUET_HD Vector<16> image_vector(const WeightImageJob& job, const FusedStage& stage,
                                  const FusedPlacesOfVector& places) {
  constexpr i32 kPerWord = 4 / ElementBytes;
  Vector<16> values;
  MINUET_UNROLL
  for (i32 w = 0; w < 4; ++w) {
    u32 word = 0;
    MINUET_UNROLL
    for (i32 e = 0; e < kPerWord; ++e) {
      const i64 source = fused_weight_at(job.layout, job.shape, stage, places, w, e);
      if constexpr (ElementBytes == 4) {
        if (source >= 0) word = read_only(static_cast<const u32*>(job.weight) + source);
      } else {
        u32 element = 0;
        if (source >= 0) element = read_only(static_cast<const u16*>(job.weight) + source);
        word |= element << 16 * e;
      }
    }
    values.words[w] = word;
  }
  return values;
}

/// Writes the vectors of item `item` of the job.
template <i32 ElementBytes>
MINUET_HD void write_image_item(const WeightImageJob& job, u32 item) {
  const u32 vectors = static_cast<u32>(job.shape.stage_vectors), stages = static_cast<u32>(job.shape.stages);
  const u32 first = item / vectors * kImageStages, vector = item % vectors;
  const FusedPlacesOfVector places = fused_places_of_vector(job.layout, static_cast<i32>(vector));
  MINUET_UNROLL
  for (u32 s = 0; s < kImageStages; ++s) {
    if (first + s >= stages) break;
    const FusedStage stage = fused_stage(job.layout, job.shape, first + s);
    store_vector(job.image, (static_cast<i64>(first + s) * vectors + vector) * 16,
                 image_vector<ElementBytes>(job, stage, places));
  }
}

template <MakeWeightImagesSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void make_weight_images(MINUET_PARAMS(MakeWeightImagesParams)
                                                                          p) {
  for_each_item<S.threads>(p, [](const WeightImageJob& job, i64 item) {
    write_image_item<S.element_bytes>(job, static_cast<u32>(item));
  });
}

}  // namespace minuet
