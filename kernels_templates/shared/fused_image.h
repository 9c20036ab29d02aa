// This file defines the image of a layer's weights, which is the layout in which the fused kernel reads them.
// The host writes the image when a plan is loaded, and the kernel make_weight_images writes it when the
// caller sets the weights. A column block is the output channels of one thread block, and the depth is the
// reduction over offsets and input channels, which the kernel processes in steps (fused_kernels.h).
//
// The image for warps has the dimensions [column block][step][32 bytes of the depth][16 columns][lane][4
// words]. The four words of a lane are the operand a[] of mma(). The image for warpgroups has the dimensions
// [column block][step][64 bytes of the depth][columns][64 bytes, swizzled], as wgmma() reads it from shared
// memory. Elements along the depth are ordered like the input of a lane: lane % 4 selects 16 consecutive
// bytes of each 64 bytes, of which words 0 and 1 are for the first product, and words 2 and 3 for the second.
// If the depth of a step ends with 32 bytes, a lane has 8 consecutive bytes of them. Columns are ordered so
// that a lane's sums are as many consecutive channels as fit in 16 bytes, and at most eight.
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
  /// Gives the number of groups of channels that one launch computes. Weights between channels of different
  /// groups are zero.
  i32 groups = 1;
  /// Gives the number of launches that compute the layer. Each computes the next in_channels inputs and
  /// out_channels outputs, and the image holds their parts one after the other.
  i32 launches = 1;
  bool operator==(const FusedImage&) const = default;
};
MINUET_HD constexpr FusedImage image_of(const FusedSpec& spec) {
  return {is_integer(spec.io) ? DType::S8 : spec.io,
          spec.in_channels,
          spec.out_channels,
          spec.volume,
          spec.step,
          spec.columns,
          spec.unit};
}

/// The Spec of a kernel describes one launch.
MINUET_HD constexpr i32 image_launches(const FusedSpec&) { return 1; }
MINUET_HD constexpr i32 image_launches(const FusedImage& image) { return image.launches; }
MINUET_HD constexpr i32 image_groups(const FusedSpec&) { return 1; }
MINUET_HD constexpr i32 image_groups(const FusedImage& image) { return image.groups; }

/// Returns the number of input channels of a group.
template <class Spec>
MINUET_HD constexpr i32 fused_group_inputs(const Spec& spec) {
  return image_groups(spec) > 1 ? spec.in_channels / image_groups(spec) : spec.in_channels;
}

template <class Spec>
MINUET_HD constexpr i64 fused_image_bytes(const Spec& spec) {
  return static_cast<i64>(image_launches(spec)) * fused_column_blocks(spec) * fused_steps(spec) *
         fused_stage_bytes(spec);
}

/// Holds sizes of an image that follow from its FusedImage. A stage is the part of the image for one column
/// block and one step.
struct FusedImageShape {
  i32 steps;         // Gives the number of steps of the depth.
  i32 offset_depth;  // Gives the number of elements of the depth that belong to one offset.
  /// Gives the binary logarithm of offset_depth if a step covers several offsets. It is -1 if an offset has
  /// whole steps.
  i32 offset_bits;
  i32 stages;         // Gives the number of stages of the image.
  i32 stage_vectors;  // Gives the number of vectors of 16 bytes of a stage.
};
template <class Spec>
MINUET_HD constexpr FusedImageShape fused_image_shape(const Spec& spec) {
  const i32 steps = fused_steps(spec), depth = fused_offset_depth(spec);
  i32 bits = -1;
  if (folds_offsets(spec.io, spec.in_channels)) {
    for (bits = 0; 1 << bits < depth; ++bits) {
    }
  }
  const i32 stages = image_launches(spec) * fused_column_blocks(spec) * steps;
  return {steps, depth, bits, stages, fused_stage_bytes(spec) / 16};
}

/// Gives the first element of the depth, and the column block, of a stage.
struct FusedStage {
  i32 block;       // Gives the number of the block of output channels, which all launches number together.
  i32 offset, in;  // Give the offset and the input channel of the first element.
};
template <class Spec>
MINUET_HD constexpr FusedStage fused_stage(const Spec& spec, const FusedImageShape& shape, u32 stage) {
  const u32 steps = static_cast<u32>(shape.steps), depth = stage % steps * static_cast<u32>(spec.step);
  const u32 offset = depth / static_cast<u32>(shape.offset_depth);
  return {static_cast<i32>(stage / steps), static_cast<i32>(offset),
          static_cast<i32>(depth - offset * static_cast<u32>(shape.offset_depth))};
}

/// Gives the places, within a stage, of the four words of 4 bytes of a vector of 16 bytes.
struct FusedPlacesOfVector {
  /// Gives each word's number along the reduction over offsets and input channels.
  i32 word[4];
  i32 column[4];  // Gives each word's output channel within the column block.
};

/// Returns the places of a vector of an image for warps, which belongs to one lane.
template <class Spec>
MINUET_HD constexpr FusedPlacesOfVector fused_places_of_lane(const Spec& spec, i32 vector) {
  const i32 tiles = spec.columns / 16, granules = spec.step / fused_granule(spec.io);
  const i32 lane = vector % 32, tile = vector / 32 % tiles, granule = vector / 32 / tiles;
  const bool is_last_half = granules % 2 == 1 && granule == granules - 1;
  const i32 lane_word = is_last_half ? lane % 4 * 2 : lane % 4 * 4 + granule % 2 * 2;
  const i32 word = granule / 2 * 16 + lane_word;
  const i32 even = fused_column(spec, tile, lane / 4), odd = fused_column(spec, tile, lane / 4 + 8);
  return {{word, word, word + 1, word + 1}, {even, odd, even, odd}};
}
/// Returns the places of a vector of an image for warpgroups, whose 64-byte pieces wgmma_place()
/// (core/wgmma.h) swizzles. A stage of 8-bit elements may end with a half piece.
template <class Spec>
MINUET_HD constexpr FusedPlacesOfVector fused_places_of_swizzled(const Spec& spec, i32 vector) {
  const i32 pieces = spec.step * dtype_bytes(spec.io) / 64, in_half = vector - pieces * spec.columns * 4;
  if (in_half >= 0) {
    const i32 number = in_half / 2, column = fused_column(spec, number / 8, number % 8);
    const i32 word = pieces * 16 + (in_half % 2 ^ (number / 4 & 1));
    return {{word, word + 2, word + 4, word + 6}, {column, column, column, column}};
  }
  const i32 number = vector / 4 % spec.columns, piece = vector / 4 / spec.columns;
  const i32 k = vector % 4 * 4 ^ (number / 2 & 3) * 4;
  const i32 column = fused_column(spec, number / 8, number % 8);
  const i32 word = piece * 16 + k / 8 * 2 + k / 4 % 2;
  return {{word, word + 4, word + 8, word + 12}, {column, column, column, column}};
}
/// Returns the places of vector `vector` of a stage.
template <class Spec>
MINUET_HD constexpr FusedPlacesOfVector fused_places_of_vector(const Spec& spec, i32 vector) {
  return spec.unit == MmaUnit::Warpgroup ? fused_places_of_swizzled(spec, vector)
                                         : fused_places_of_lane(spec, vector);
}

/// Gives the place of channels 2 i and 2 i + 1 of a column block, as arguments of fused_column().
struct FusedPair {
  i32 tile;
  i32 part;  // The columns are `part` and `part` + 8 for warps, and 2 `part` and 2 `part` + 1 for warpgroups.
};
template <i32 ElementBytes, class Spec>
MINUET_HD constexpr FusedPair fused_pair(const Spec& spec, i32 pair) {
  // The tiles of a group (FusedColumnGroup) are 1 << bits. Groups of fewer tiles are the last ones.
  const i32 tile_bits = spec.unit == MmaUnit::Warpgroup ? 2 : 3, most_bits = ElementBytes == 4 ? 1 : 2;
  const i32 tiles = spec.columns / fused_tile(spec), whole = tiles >> most_bits << most_bits;
  i32 bits = most_bits, first = pair >> (tile_bits + bits) << bits;
  if (first >= whole) {
    const i32 rest = tiles - whole;
    first = whole, bits = rest / 2;
    if (rest == 3 && pair >> tile_bits >= whole + 2) first = whole + 2, bits = 0;
  }
  const i32 within = pair - (first << tile_bits);
  return {first + (within & ((1 << bits) - 1)), within >> bits};
}

/// Names a weight by its offset, its input channel within the group of its output, and its output channel,
/// which all launches number together.
struct FusedWeight {
  i32 offset, in, out;
};

/// Returns which weight the image holds at element `element` of word `word` of a vector. Its offset is -1 if
/// the element must be 0, because it is padding or between channels of different groups.
template <class Spec>
MINUET_HD constexpr FusedWeight fused_weight_in(const Spec& spec, const FusedImageShape& shape,
                                                const FusedStage& stage, const FusedPlacesOfVector& places,
                                                i32 word, i32 element) {
  constexpr FusedWeight kNone{-1, 0, 0};
  i32 offset = stage.offset;
  i32 in = stage.in + places.word[word] * (4 / dtype_bytes(spec.io)) + element;
  if (shape.offset_bits >= 0) {
    offset += in >> shape.offset_bits;
    in &= shape.offset_depth - 1;
  }
  const i32 launches = image_launches(spec), blocks = launches == 1 ? 0 : fused_column_blocks(spec);
  const i32 launch = launches == 1 ? 0 : stage.block / blocks;
  const i32 out = (stage.block - launch * blocks) * spec.columns + places.column[word];
  if (offset >= spec.volume || in >= spec.in_channels || out >= spec.out_channels) return kNone;
  if (image_groups(spec) > 1) {
    const i32 inputs = fused_group_inputs(spec);
    in -= out / (spec.out_channels / image_groups(spec)) * inputs;
    if (in < 0 || in >= inputs) return kNone;
  }
  return {offset, in, launch * spec.out_channels + out};
}

/// Returns the same weight as an index into weights of the shape [volume][in_channels / groups][launches *
/// out_channels], or -1 if the element must be 0.
template <class Spec>
MINUET_HD constexpr i64 fused_weight_at(const Spec& spec, const FusedImageShape& shape,
                                        const FusedStage& stage, const FusedPlacesOfVector& places, i32 word,
                                        i32 element) {
  const FusedWeight weight = fused_weight_in(spec, shape, stage, places, word, element);
  if (weight.offset < 0) return -1;
  return (static_cast<i64>(weight.offset) * fused_group_inputs(spec) + weight.in) * image_launches(spec) *
             spec.out_channels +
         weight.out;
}

/// Does the same for element `index` of the image.
template <class Spec>
MINUET_HD constexpr i64 fused_weight_of(const Spec& spec, i64 index) {
  const i32 per_word = 4 / dtype_bytes(spec.io);
  const FusedImageShape shape = fused_image_shape(spec);
  const i64 vector = index / per_word / 4;
  return fused_weight_at(spec, shape,
                         fused_stage(spec, shape, static_cast<u32>(vector / shape.stage_vectors)),
                         fused_places_of_vector(spec, static_cast<i32>(vector % shape.stage_vectors)),
                         static_cast<i32>(index / per_word % 4), static_cast<i32>(index % per_word));
}

}  // namespace minuet
