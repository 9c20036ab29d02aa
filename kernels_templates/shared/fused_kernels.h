// Spec (compile time) and Params (run time) of the fused dataflow: one kernel a layer.
//
//   output[q] = epilogue(sum over offsets k of input[rows[k][q]] * weights[k])
//
// The sum runs over the flattened depth (offset, input channel), in steps of `step` elements, each of which
// is one stage of weights. A step lies within one offset, but for layers of few input channels, whose steps
// take several offsets each.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// How a block's weights come to its tensor cores.
enum class WeightRoad : i32 {
  Cached,     // each warp reads them from the cache, on its own: for few channels
  AsyncCopy,  // a ring in shared memory, filled by all threads (cp.async)
  BulkCopy,   // a ring in shared memory, filled by a warp of its own with bulk copies; from sm_90 on
};

struct FusedSpec {
  DType io = DType::F16;
  i32 in_channels = 64, out_channels = 64;
  i32 volume = 27;    // offsets of the kernel
  i32 step = 64;      // elements along the depth that one stage of weights has
  i32 columns = 64;   // output channels of a block, a multiple of 16
  i32 row_tiles = 2;  // tiles of 8 output rows of a warp
  i32 warps = 4;      // of a block, along its rows
  i32 split = 1;      // warps that share the same rows and take the steps in turn
  i32 prefetch = 2;   // steps whose input rows are under way or in registers
  i32 stages = 4;     // of the ring
  i32 blocks = 1;     // that the registers of a multiprocessor hold
  WeightRoad weights = WeightRoad::AsyncCopy;
  i32 input_bytes = 16;   // widest access that divides every input row's start and length, at most 16
  i32 output_bytes = 16;  // the same of output and residual
  bool scale_shift = true;
  bool residual = false;
  Activation activation = Activation::ReLU;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("in_channels", in_channels), visitor("out_channels", out_channels),
        visitor("volume", volume), visitor("step", step), visitor("columns", columns),
        visitor("row_tiles", row_tiles), visitor("warps", warps), visitor("split", split),
        visitor("prefetch", prefetch), visitor("stages", stages), visitor("blocks", blocks),
        visitor("weights", weights), visitor("input_bytes", input_bytes),
        visitor("output_bytes", output_bytes), visitor("scale_shift", scale_shift),
        visitor("residual", residual), visitor("activation", activation);
  }
};

/// Positions are the places of the queries in the order in which blocks take them, fused_block_rows(spec)
/// each; heavy ones are best in front. A grid of fused_blocks(spec, capacity).
struct FusedParams {
  const void* input;
  i64 input_ld;
  const i32* rows;    // [volume][row_stride] source row or -1; null where volume is 1 and a query's source
                      // is the row of its own number
  const u32* masks;   // [mask_words(volume)][row_stride] bit k % 32 of word k / 32: rows[k] is a row; null
                      // where rows is
  i64 row_stride;     // of rows and masks
  const i32* order;   // [count] the query of a position, its row of output and residual; null: the same
  i32 ordered_views;  // rows and masks have a column a position; 0: a column a query
  const i32* query_count;  // on the device
  i64 padded_rows;         // output rows from the count up to here become zeros
  const void* weights;     // the image of [volume][in_channels][out_channels], aligned to 16
  const float* scale;      // [out_channels] or null, by the Spec
  const float* shift;
  const void* residual;
  i64 residual_ld;
  void* output;
  i64 output_ld;
  u32* overflow;  // 1 where a number is written that is infinite or NaN, else left alone
};

/// What decides the image of a layer's weights: equal ones have equal images.
struct FusedImage {
  DType io = DType::F16;
  i32 in_channels = 0, out_channels = 0;
  i32 volume = 0;
  i32 step = 0;
  i32 columns = 0;
  bool operator==(const FusedImage&) const = default;
};
MINUET_HD constexpr FusedImage image_of(const FusedSpec& spec) {
  return {spec.io, spec.in_channels, spec.out_channels, spec.volume, spec.step, spec.columns};
}

MINUET_HD constexpr i32 mask_words(i32 volume) { return (volume + 31) / 32; }

/// Of a block; the last warp may be the one that fills the ring.
MINUET_HD constexpr i32 fused_threads(const FusedSpec& spec) {
  return 32 * (spec.warps * spec.split + (spec.weights == WeightRoad::BulkCopy ? 1 : 0));
}
MINUET_HD constexpr i32 fused_block_rows(const FusedSpec& spec) { return 8 * spec.row_tiles * spec.warps; }
// ---- the depth
// ---------------------------------------------------------------------------------------------

/// Elements of a tensor core's 32 bytes along the depth: 16 of 16 bits, 8 of 32.
MINUET_HD constexpr i32 fused_granule(DType io) { return 32 / dtype_bytes(io); }

/// Whether a lane's 16 bytes of input hold all channels of an offset: then steps take several offsets.
MINUET_HD constexpr bool folds_offsets(DType io, i32 in_channels) {
  return in_channels * dtype_bytes(io) <= 16;
}

/// Elements of the depth that an offset takes: its channels, and zeros behind them.
MINUET_HD constexpr i32 fused_offset_depth(DType io, i32 in_channels, i32 step) {
  if (!folds_offsets(io, in_channels)) return (in_channels + step - 1) / step * step;
  i32 power = 1;
  while (power < in_channels) power *= 2;
  return power;
}

template <class Spec>
MINUET_HD constexpr i32 fused_offset_depth(const Spec& spec) {
  return fused_offset_depth(spec.io, spec.in_channels, spec.step);
}
/// Steps of all offsets together.
template <class Spec>
MINUET_HD constexpr i32 fused_steps(const Spec& spec) {
  return (spec.volume * fused_offset_depth(spec) + spec.step - 1) / spec.step;
}
template <class Spec>
MINUET_HD constexpr i32 fused_column_blocks(const Spec& spec) {
  return (spec.out_channels + spec.columns - 1) / spec.columns;
}
/// Blocks of a launch for up to `capacity` queries; those of the same rows are neighbours.
MINUET_HD constexpr i64 fused_blocks(const FusedSpec& spec, i64 capacity) {
  return (capacity + fused_block_rows(spec) - 1) / fused_block_rows(spec) * fused_column_blocks(spec);
}
template <class Spec>
MINUET_HD constexpr i32 fused_stage_bytes(const Spec& spec) {
  return spec.step * spec.columns * dtype_bytes(spec.io);
}
template <class Spec>
MINUET_HD constexpr i64 fused_image_bytes(const Spec& spec) {
  return static_cast<i64>(fused_column_blocks(spec)) * fused_steps(spec) * fused_stage_bytes(spec);
}

/// Dynamic shared memory: the ring's barriers, the masks of the warps' rows, the ring; in the place of the
/// ring at the end the sums of the warps that share rows.
MINUET_HD constexpr i32 fused_barrier_bytes(const FusedSpec& spec) {
  return spec.weights == WeightRoad::BulkCopy ? (2 * spec.stages * 8 + 127) / 128 * 128 : 0;
}
MINUET_HD constexpr i32 fused_mask_bytes(const FusedSpec& spec) {
  return (spec.warps * mask_words(spec.volume) * 4 + 127) / 128 * 128;
}
MINUET_HD constexpr i32 fused_shared_bytes(const FusedSpec& spec) {
  const i32 ring = spec.weights == WeightRoad::Cached ? 0 : spec.stages * fused_stage_bytes(spec);
  const i32 sums = (spec.split - 1) * fused_block_rows(spec) * spec.columns * 4;
  return fused_barrier_bytes(spec) + fused_mask_bytes(spec) + (ring > sums ? ring : sums);
}

// ---- the image of the weights
// -------------------------------------------------------------------------------
//
// [column block][step][32 bytes of the depth][16 columns][lane][4 words]: a lane's 16 bytes are a[] of mma().
// The order of elements along the depth is that of a lane's input: of 64 bytes, lane t of four has 16 in a
// row, words 0 and 1 for the first product, 2 and 3 for the second; of the last 32, it has 8. The order of
// columns is that of the sums: a lane ends with as many consecutive channels as 16 bytes hold.

/// Tiles of 16 columns whose channels lie interleaved, and which of them `tile` is in: a lane's consecutive
/// channels are two of each.
struct FusedColumnGroup {
  i32 first, tiles;  // tiles of the block
};
MINUET_HD constexpr FusedColumnGroup fused_column_group(DType io, i32 columns, i32 tile) {
  i32 first = 0, tiles = 8 / dtype_bytes(io);
  for (;;) {
    while (first + tiles > columns / 16) tiles /= 2;
    if (tile < first + tiles) return {first, tiles};
    first += tiles;
  }
}

/// The channel of row `row` of a tile of 16, in its block.
MINUET_HD constexpr i32 fused_column(DType io, i32 columns, i32 tile, i32 row) {
  const FusedColumnGroup group = fused_column_group(io, columns, tile);
  return group.first * 16 + row % 8 * 2 * group.tiles + (tile - group.first) * 2 + row / 8;
}

/// Element of the weights that element `index` of the image is: [volume][in_channels][out_channels], or -1
/// for a zero.
template <class Spec>
MINUET_HD constexpr i64 fused_weight_of(const Spec& spec, i64 index) {
  const i32 per_word = 4 / dtype_bytes(spec.io), tiles = spec.columns / 16;
  const i32 element = static_cast<i32>(index % per_word);
  i64 rest = index / per_word;
  const i32 word = static_cast<i32>(rest % 4), lane = static_cast<i32>(rest / 4 % 32);
  rest /= 128;
  const i32 tile = static_cast<i32>(rest % tiles);
  rest /= tiles;
  const i32 granules = spec.step / fused_granule(spec.io);
  const i32 granule = static_cast<i32>(rest % granules);
  rest /= granules;
  const i32 step = static_cast<i32>(rest % fused_steps(spec)),
            block = static_cast<i32>(rest / fused_steps(spec));

  const bool is_last_half = granules % 2 == 1 && granule == granules - 1;
  const i32 lane_word = is_last_half ? lane % 4 * 2 : lane % 4 * 4 + granule % 2 * 2;
  const i32 depth_word = granule / 2 * 16 + lane_word + word / 2;
  const i64 depth = static_cast<i64>(step) * spec.step + depth_word * per_word + element;
  const i32 offset = static_cast<i32>(depth / fused_offset_depth(spec));
  const i32 in = static_cast<i32>(depth % fused_offset_depth(spec));
  const i32 out = block * spec.columns + fused_column(spec.io, spec.columns, tile, lane / 4 + word % 2 * 8);
  if (offset >= spec.volume || in >= spec.in_channels || out >= spec.out_channels) return -1;
  return (static_cast<i64>(offset) * spec.in_channels + in) * spec.out_channels + out;
}

}  // namespace minuet
