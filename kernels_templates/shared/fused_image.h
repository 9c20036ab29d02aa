// This file defines the image of a layer's weights, which is the layout in which the fused kernel reads them.
// The host writes the image. A column block is the output channels of one thread block, and the depth is the
// reduction over offsets and input channels, which the kernel processes in steps (fused_kernels.h).
//
// The image for warps has the dimensions [column block][step][32 bytes of the depth][16 columns][lane][4
// words]. The four words of a lane are the operand a[] of mma(). The image for warpgroups has the dimensions
// [column block][step][64 bytes of the depth][columns][64 bytes, swizzled], as wgmma() reads it from shared
// memory. Elements along the depth are ordered like the input of a lane: lane % 4 selects 16 consecutive
// bytes of each 64 bytes, of which words 0 and 1 are for the first product, and words 2 and 3 for the second.
// If the depth of a step ends with 32 bytes, a lane has 8 consecutive bytes of them. Columns are ordered so
// that a lane's sums are as many consecutive channels as fit in 16 bytes.
#pragma once

#include "kernels_templates/shared/fused_kernels.h"

namespace minuet {

/// Holds everything that determines the layout of the image of a layer's weights. Equal values mean equal
/// layouts.
struct FusedImage {
  DType io = DType::F16;
  i32 in_channels = 0, out_channels = 0;
  i32 volume = 0;
  i32 step = 0;
  i32 columns = 0;
  MmaUnit unit = MmaUnit::Warp;
  bool operator==(const FusedImage&) const = default;
};
MINUET_HD constexpr FusedImage image_of(const FusedSpec& spec) {
  return {spec.io, spec.in_channels, spec.out_channels, spec.volume, spec.step, spec.columns, spec.unit};
}

template <class Spec>
MINUET_HD constexpr i64 fused_image_bytes(const Spec& spec) {
  return static_cast<i64>(fused_column_blocks(spec)) * fused_steps(spec) * fused_stage_bytes(spec);
}

/// Holds sizes of an image that follow from its FusedImage.
struct FusedImageShape {
  i32 steps;         // Gives the number of steps of the depth.
  i32 offset_depth;  // Gives the number of elements of the depth that belong to one offset.
};
template <class Spec>
MINUET_HD constexpr FusedImageShape fused_image_shape(const Spec& spec) {
  return {fused_steps(spec), fused_offset_depth(spec)};
}

/// Gives the places, in the weights, of the four words of 4 bytes of one 16-byte vector of their image.
struct FusedPlacesOfVector {
  i32 block, step;  // `block` is the number of the block of output channels.
  /// Gives each word's number within the step, along the reduction over offsets and input channels.
  i32 word[4];
  i32 column[4];  // Gives each word's output channel within its block.
};

/// Returns the places of a vector of an image for warps, which belongs to one lane.
template <class Spec>
MINUET_HD constexpr FusedPlacesOfVector fused_places_of_lane(const Spec& spec, const FusedImageShape& shape,
                                                             u32 vector) {
  const u32 tiles = spec.columns / 16, granules = spec.step / fused_granule(spec.io);
  const i32 lane = static_cast<i32>(vector % 32);
  u32 rest = vector / 32;
  const i32 tile = static_cast<i32>(rest % tiles);
  rest /= tiles;
  const i32 granule = static_cast<i32>(rest % granules);
  rest /= granules;
  const bool is_last_half = granules % 2 == 1 && granule == static_cast<i32>(granules) - 1;
  const i32 lane_word = is_last_half ? lane % 4 * 2 : lane % 4 * 4 + granule % 2 * 2;
  const i32 word = granule / 2 * 16 + lane_word;
  const i32 even = fused_column(spec, tile, lane / 4), odd = fused_column(spec, tile, lane / 4 + 8);
  const u32 steps = static_cast<u32>(shape.steps);
  return {static_cast<i32>(rest / steps),
          static_cast<i32>(rest % steps),
          {word, word, word + 1, word + 1},
          {even, odd, even, odd}};
}
/// Returns the places of a vector of an image for warpgroups, whose 64-byte pieces wgmma_place()
/// (core/wgmma.h) swizzles.
template <class Spec>
MINUET_HD constexpr FusedPlacesOfVector fused_places_of_swizzled(const Spec& spec,
                                                                 const FusedImageShape& shape, u32 vector) {
  const u32 pieces = spec.step * dtype_bytes(spec.io) / 64, columns = spec.columns;
  const i32 number = static_cast<i32>(vector / 4 % columns);
  const i32 k = static_cast<i32>(vector % 4 * 4) ^ (number / 2 & 3) * 4;
  u32 rest = vector / 4 / columns;
  const i32 piece = static_cast<i32>(rest % pieces);
  rest /= pieces;
  const i32 column = fused_column(spec, number / 8, number % 8);
  const i32 word = piece * 16 + k / 8 * 2 + k / 4 % 2;
  const u32 steps = static_cast<u32>(shape.steps);
  return {static_cast<i32>(rest / steps),
          static_cast<i32>(rest % steps),
          {word, word + 4, word + 8, word + 12},
          {column, column, column, column}};
}
template <class Spec>
MINUET_HD constexpr FusedPlacesOfVector fused_places_of_vector(const Spec& spec, const FusedImageShape& shape,
                                                               u32 vector) {
  return spec.unit == MmaUnit::Warpgroup ? fused_places_of_swizzled(spec, shape, vector)
                                         : fused_places_of_lane(spec, shape, vector);
}

/// Returns which weight the image holds at element `element` of word `word` of a vector, as an index into
/// weights of the shape [volume][in_channels][out_channels]. The result is -1 if the element is padding and
/// must be 0.
template <class Spec>
MINUET_HD constexpr i64 fused_weight_at(const Spec& spec, const FusedImageShape& shape,
                                        const FusedPlacesOfVector& places, i32 word, i32 element) {
  const u32 per_word = 4 / dtype_bytes(spec.io);
  const u32 depth = static_cast<u32>(places.step) * spec.step + places.word[word] * per_word + element;
  const i32 offset = static_cast<i32>(depth / static_cast<u32>(shape.offset_depth));
  const i32 in = static_cast<i32>(depth % static_cast<u32>(shape.offset_depth));
  const i32 out = places.block * spec.columns + places.column[word];
  if (offset >= spec.volume || in >= spec.in_channels || out >= spec.out_channels) return -1;
  return (static_cast<i64>(offset) * spec.in_channels + in) * spec.out_channels + out;
}

/// Does the same for element `index` of the image.
template <class Spec>
MINUET_HD constexpr i64 fused_weight_of(const Spec& spec, i64 index) {
  const i32 per_word = 4 / dtype_bytes(spec.io);
  const FusedImageShape shape = fused_image_shape(spec);
  const auto places = fused_places_of_vector(spec, shape, static_cast<u32>(index / per_word / 4));
  return fused_weight_at(spec, shape, places, static_cast<i32>(index / per_word % 4),
                         static_cast<i32>(index % per_word));
}

}  // namespace minuet
