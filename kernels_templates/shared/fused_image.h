// The image of a layer's weights: the layout in which the fused kernel reads them. The host writes it.
//
// For warps: [column block][step][32 bytes of the depth][16 columns][lane][4 words]. A lane's 16 bytes are
// a[] of mma(). For warpgroups: [column block][step][64 bytes of the depth][columns][64 bytes, swizzled], as
// wgmma() reads it from shared memory. Elements along the depth are ordered like a lane's input: of 64 bytes,
// each lane t of four has 16 consecutive bytes, words 0 and 1 for the first product and words 2 and 3 for the
// second; if the depth ends with 32 bytes, each lane has 8 of them. Columns are ordered so that a lane's sums
// are as many consecutive channels as fit in 16 bytes.
#pragma once

#include "kernels_templates/shared/fused_kernels.h"

namespace minuet {

/// Everything that determines a layer's image: equal values have equal images.
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

/// Position of a 4-byte word of the image along the depth and across the channels.
struct FusedPlaceOfWeight {
  i32 block, step;  // block: column block
  i32 word;         // 4-byte word along the step's depth
  i32 column;       // channel within the column block
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
/// Does the same for a warpgroup's image, whose pieces are swizzled by wgmma_place() (core/wgmma.h).
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

/// Returns the index in the weights, [volume][in_channels][out_channels], of element `index` of the image, or
/// -1 if that element is a zero.
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
