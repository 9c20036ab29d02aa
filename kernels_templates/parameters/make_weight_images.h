// The kernel make_weight_images writes the images (shared/fused_image.h) of several weights: image[i] =
// weight[fused_weight_of(i)], rounded to the type of the image, and 0 where the image is padded. Each thread
// writes a few vectors of 16 bytes, which it reads in the way of the job (ImageRead).
#pragma once

#include "kernels_templates/parameters/image_elements.h"
#include "kernels_templates/parameters/image_pieces.h"
#include "kernels_templates/parameters/job_of_item.h"

namespace minuet {

template <i32 ElementBytes, MmaUnit Unit>
MINUET_HD void write_image_pieces(const WeightImageJob& job, u32 item) {
  if (job.shares.read == ImageRead::Inputs) {
    return write_image_pieces<ElementBytes, Unit, ReadInputs<ElementBytes, Unit>>(job, item);
  }
  if constexpr (ElementBytes == 2) {
    if (job.stored != DType::F32) return write_image_pieces<2, Unit, ReadOutputs<2, 2, Unit>>(job, item);
  }
  write_image_pieces<ElementBytes, Unit, ReadOutputs<ElementBytes, 4, Unit>>(job, item);
}

/// Writes the vectors of item `item` of the job.
template <i32 ElementBytes>
MINUET_HD void write_image_item(const WeightImageJob& job, u32 item) {
  if (job.shares.read == ImageRead::Elements) return write_image_vectors<ElementBytes>(job, item);
  if (job.layout.unit == MmaUnit::Warpgroup) {
    return write_image_pieces<ElementBytes, MmaUnit::Warpgroup>(job, item);
  }
  write_image_pieces<ElementBytes, MmaUnit::Warp>(job, item);
}

template <MakeWeightImagesSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void make_weight_images(MINUET_PARAMS(MakeWeightImagesParams)
                                                                          p) {
  for_each_item<S.threads>(p, [](const WeightImageJob& job, i64 item) {
    write_image_item<S.element_bytes>(job, static_cast<u32>(item));
  });
}

}  // namespace minuet
