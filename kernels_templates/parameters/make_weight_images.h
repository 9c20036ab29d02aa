// The kernel make_weight_images writes the images (shared/fused_image.h) of several weights: image[i] =
// weight[fused_weight_of(i)], and 0 where the image is padded. Each thread writes one vector of 16 bytes at a
// time.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/parameter_kernels.h"

namespace minuet {

/// Returns vector number `vector` of the image.
template <i32 ElementBytes>
MINUET_HD Vector<16> image_vector(const WeightImageJob& job, const FusedImageShape& shape, u32 vector) {
  constexpr i32 kPerWord = 4 / ElementBytes;
  const FusedPlacesOfVector places = fused_places_of_vector(job.layout, shape, vector);
  Vector<16> values;
  MINUET_UNROLL
  for (i32 w = 0; w < 4; ++w) {
    u32 word = 0;
    MINUET_UNROLL
    for (i32 e = 0; e < kPerWord; ++e) {
      const i64 source = fused_weight_at(job.layout, shape, places, w, e);
      if (source < 0) continue;
      if constexpr (ElementBytes == 4) {
        word = read_only(static_cast<const u32*>(job.weight) + source);
      } else {
        word |= static_cast<u32>(read_only(static_cast<const u16*>(job.weight) + source)) << 16 * e;
      }
    }
    values.words[w] = word;
  }
  return values;
}

template <MakeWeightImagesSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void make_weight_images(MINUET_PARAMS(MakeWeightImagesParams)
                                                                          p) {
  __shared__ i64 starts[kMostWeightImages + 1];
  find_starts<S.threads, kMostWeightImages>(
      starts, p.count, [&](i32 job) { return fused_image_bytes(p.jobs[job].layout) / 16; });
  JobIterator jobs(starts);
  i32 job = -1;
  FusedImageShape shape{};
  for (i64 item = grid_thread(S.threads); item < starts[p.count]; item += grid_threads(S.threads)) {
    const i32 next = jobs.advance(item);
    if (next != job) shape = fused_image_shape(p.jobs[next].layout);
    job = next;
    const i64 vector = jobs.inner(item);
    store_vector(p.jobs[job].image, vector * 16,
                 image_vector<S.element_bytes>(p.jobs[job], shape, static_cast<u32>(vector)));
  }
}

}  // namespace minuet
