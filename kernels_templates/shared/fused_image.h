// The image of a layer's weights, as the fused dataflow's kernel reads them. For hosts, which write it.
//
// Of a warp: [column block][step][32 bytes of the depth][16 columns][lane][4 words]: a lane's 16 bytes are
// a[] of mma(). Of a warpgroup: [column block][step][64 bytes of the depth][columns][64 bytes, swizzled],
// what wgmma() reads from shared memory. The order of elements along the depth is that of a lane's input: of
// 64 bytes, lane t of four has 16 in a row, words 0 and 1 for the first product, 2 and 3 for the second; of
// the last 32, it has 8. The order of columns is that of the sums: a lane ends with as many consecutive
// channels as 16 bytes hold.
#pragma once

#include "kernels_templates/shared/fused_kernels.h"

namespace minuet {

/// What decides the image of a layer's weights: equal ones have equal images.
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

/// Where element `index` of the image lies along the depth and across.
struct FusedPlaceOfWeight {
  i32 block, step;  // column block
  i32 word;         // of 4 bytes along the step's depth
  i32 column;       // channel of the block
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
/// As wgmma_place() (core/wgmma.h) has the words of a piece.
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

/// Element of the weights that element `index` of the image is: [volume][in_channels][out_channels], or -1
/// for a zero.
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
