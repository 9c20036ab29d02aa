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

/// Gives the place, in the weights, of a 4-byte word of their image.
struct FusedPlaceOfWeight {
  i32 block, step;  // `block` is the number of the block of output channels.
  /// Gives the number of the word within the step, along the reduction over offsets and input channels.
  i32 word;
  i32 column;  // Gives the number of the output channel within its block.
};
template <class Spec>
MINUET_HD constexpr FusedPlaceOfWeight fused_place_of_word(const Spec& spec, i64 word) {
  const i32 tiles = spec.columns / 16, granules = spec.step / fused_granule(spec.io);
  const i32 i = static_cast<i32>(word % 4), lane = static_cast<i32>(word / 4 % 32);
  i64 rest = word / 128;
  const i32 tile = static_cast<i32>(rest % tiles);
  rest /= tiles;
  const i32 granule = static_cast<i32>(rest % granules);
  rest /= granules;
  const bool is_last_half = granules % 2 == 1 && granule == granules - 1;
  const i32 lane_word = is_last_half ? lane % 4 * 2 : lane % 4 * 4 + granule % 2 * 2;
  return {static_cast<i32>(rest / fused_steps(spec)), static_cast<i32>(rest % fused_steps(spec)),
          granule / 2 * 16 + lane_word + i / 2, fused_column(spec, tile, lane / 4 + i % 2 * 8)};
}
/// Returns the place of word `word` of an image for warpgroups, whose 64-byte pieces wgmma_place()
/// (core/wgmma.h) swizzles.
template <class Spec>
MINUET_HD constexpr FusedPlaceOfWeight fused_place_of_swizzled_word(const Spec& spec, i64 word) {
  const i32 pieces = spec.step * dtype_bytes(spec.io) / 64;
  const i32 column = static_cast<i32>(word / 16 % spec.columns);
  const i32 k = static_cast<i32>(word % 16) ^ (column / 2 & 3) * 4;
  i64 rest = word / 16 / spec.columns;
  const i32 piece = static_cast<i32>(rest % pieces);
  rest /= pieces;
  return {static_cast<i32>(rest / fused_steps(spec)), static_cast<i32>(rest % fused_steps(spec)),
          piece * 16 + k % 4 * 4 + k / 8 * 2 + k / 4 % 2, fused_column(spec, column / 8, column % 8)};
}

/// Returns which weight element `index` of the image holds, as an index into weights of the shape
/// [volume][in_channels][out_channels]. The result is -1 if the element is padding and must be 0.
template <class Spec>
MINUET_HD constexpr i64 fused_weight_of(const Spec& spec, i64 index) {
  const i32 per_word = 4 / dtype_bytes(spec.io);
  const FusedPlaceOfWeight place = spec.unit == MmaUnit::Warpgroup
                                       ? fused_place_of_swizzled_word(spec, index / per_word)
                                       : fused_place_of_word(spec, index / per_word);
  const i64 depth = static_cast<i64>(place.step) * spec.step + place.word * per_word + index % per_word;
  const i32 offset = static_cast<i32>(depth / fused_offset_depth(spec));
  const i32 in = static_cast<i32>(depth % fused_offset_depth(spec));
  const i32 out = place.block * spec.columns + place.column;
  if (offset >= spec.volume || in >= spec.in_channels || out >= spec.out_channels) return -1;
  return (static_cast<i64>(offset) * spec.in_channels + in) * spec.out_channels + out;
}

}  // namespace minuet
