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
  BulkRefill  // the same ring, filled by the warps that multiply, in turns
};

/// Who multiplies.
enum class MmaUnit : i32 {
  Warp,      // mma.sync
  Warpgroup  // wgmma: 64 rows a product, weights from a ring; on sm_90a alone, and not in fp32
};

struct FusedSpec {
  DType io = DType::F16;
  i32 in_channels = 64, out_channels = 64;
  i32 volume = 27;    // offsets of the kernel
  i32 step = 64;      // elements along the depth that one stage of weights has
  i32 columns = 64;   // output channels of a block, a multiple of 16
  i32 row_tiles = 2;  // tiles of 8 output rows of a warp; 2 in a warpgroup
  i32 warps = 4;      // of a block, along its rows; whole warpgroups
  i32 split = 1;      // warps that share the same rows and take the steps in turn; 1 in a warpgroup
  i32 cluster = 1;    // blocks that share the same rows and have a part of the offsets each; from sm_90 on
  i32 prefetch = 2;   // steps whose input rows are under way or in registers
  i32 stages = 4;     // of the ring
  i32 blocks = 1;     // that the registers of a multiprocessor hold
  WeightRoad weights = WeightRoad::AsyncCopy;
  MmaUnit unit = MmaUnit::Warp;
  bool early_loads = false;   // of a warpgroup: in front of a step's products, not behind them
  bool programmatic = false;  // starts while the launch before it ends; from sm_90 on
  i32 input_bytes = 16;       // widest access that divides every input row's start and length, at most 16
  i32 output_bytes = 16;      // the same of output and residual
  bool scale_shift = true;
  bool residual = false;
  bool shortcut = false;  // further blocks compute a 1x1 convolution of the same input and channels
  Activation activation = Activation::ReLU;
  bool operator==(const FusedSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("in_channels", in_channels), visitor("out_channels", out_channels),
        visitor("volume", volume), visitor("step", step), visitor("columns", columns),
        visitor("row_tiles", row_tiles), visitor("warps", warps), visitor("split", split),
        visitor("cluster", cluster), visitor("prefetch", prefetch), visitor("stages", stages),
        visitor("blocks", blocks), visitor("weights", weights), visitor("unit", unit),
        visitor("early_loads", early_loads), visitor("programmatic", programmatic),
        visitor("input_bytes", input_bytes), visitor("output_bytes", output_bytes),
        visitor("scale_shift", scale_shift), visitor("residual", residual), visitor("shortcut", shortcut),
        visitor("activation", activation);
  }
};

/// A residual block's shortcut, in the launch of the block's first layer, by blocks of its own that share no
/// rows: its offset is the one in the middle of the kernel, where each query is its own source; scale and
/// shift as the Spec has them, no activation.
struct FusedShortcut {
  u32 first_block;      // of the grid: fused_blocks()
  const void* weights;  // the image of [1][in_channels][out_channels]
  const float* scale;
  const float* shift;
  void* output;
  i32 output_ld;
  u32* overflow;
};

/// Positions are the places of the queries in an order; a block takes fused_block_rows(spec) of them. A grid
/// of fused_grid(spec, capacity).
struct FusedParams {
  const void* input;
  i32 input_ld;
  const i32* rows;    // [volume][row_stride] source row or -1, anything where none of kRowsTogether
                      // positions has the offset; null where volume is 1 and a query's source is the row of
                      // its own number
  const u32* masks;   // [mask_words(volume)][row_stride] bit k % 32 of word k / 32: rows[k] is a row; null
                      // where rows is
  i32 row_stride;     // of rows and masks
  const i32* order;   // [count] the query of a position, its row of output and residual; null: the same
  i32 ordered_views;  // rows and masks have a column a position; 0: a column a query
  const i32* block_order;  // whose positions a block takes, in the order in which blocks start; null: its own
  const i32* query_count;  // on the device
  i64 padded_rows;         // output rows from the count up to here become zeros
  const void* weights;     // the image of [volume][in_channels][out_channels], aligned to 16
  const float* scale;      // [out_channels] or null, by the Spec; aligned to 16, and shift
  const float* shift;
  const void* residual;
  i32 residual_ld;
  void* output;
  i32 output_ld;
  u32* overflow;           // overflow_mark where a number is written that is infinite or NaN, else left alone
  u32 overflow_mark;       // not 0
  float slope;             // of the Spec's leaky ReLU; other activations do not read it
  FusedShortcut shortcut;  // where the Spec has one
};

MINUET_HD constexpr i32 mask_words(i32 volume) { return (volume + 31) / 32; }

/// Of a block; the last warp may be the one that fills the ring.
MINUET_HD constexpr i32 fused_threads(const FusedSpec& spec) {
  return 32 * (spec.warps * spec.split + (spec.weights == WeightRoad::BulkCopy ? 1 : 0));
}
MINUET_HD constexpr i32 fused_block_rows(const FusedSpec& spec) { return 8 * spec.row_tiles * spec.warps; }
/// Positions that pass over an offset together, for none of them has it: a warp's, or a warpgroup's.
MINUET_HD constexpr i32 fused_unit_rows(const FusedSpec& spec) {
  return 8 * spec.row_tiles * (spec.unit == MmaUnit::Warpgroup ? 4 : 1);
}
/// A multiple of all units: from a multiple of it on, so many positions have the same offsets' entries.
constexpr i32 kRowsTogether = 64;

/// Heights of blocks for which an ordered view has an order of its blocks.
constexpr i32 kBlockHeights[] = {32, 64, 128, 192};
constexpr i32 kBlockHeightCount = 4, kLeastBlockHeight = 32;
MINUET_HD constexpr i64 blocks_of_height(i64 queries, i32 height) { return (queries + height - 1) / height; }
/// Where a height's order begins among those of a view of `capacity` queries, one behind the other; of
/// kBlockHeightCount, how long they are.
MINUET_HD constexpr i64 block_order_begin(i64 capacity, i32 which) {
  i64 begin = 0;
  for (i32 i = 0; i < which; ++i) begin += blocks_of_height(capacity, kBlockHeights[i]);
  return begin;
}
/// That of a Spec's blocks, or -1.
MINUET_HD constexpr i32 block_order_of(const FusedSpec& spec) {
  for (i32 i = 0; i < kBlockHeightCount; ++i) {
    if (kBlockHeights[i] == fused_block_rows(spec)) return i;
  }
  return -1;
}

// ---- the depth ------------------------------------------------------------------------------------------

/// Elements of a tensor core's 32 bytes along the depth: 16 of 16 bits, 8 of 32.
MINUET_HD constexpr i32 fused_granule(DType io) { return 32 / dtype_bytes(io); }

/// Whether a lane's 16 bytes of input hold all channels of an offset: then steps take several offsets.
MINUET_HD constexpr bool folds_offsets(DType io, i32 in_channels) {
  return in_channels * dtype_bytes(io) <= 16;
}

/// Whether a warp leaves out the products of tiles that have no row: of few channels they cost less than to
/// ask.
MINUET_HD constexpr bool fused_skips_tiles(const FusedSpec& spec) {
  return spec.unit == MmaUnit::Warp && spec.row_tiles > 1 && spec.weights != WeightRoad::Cached &&
         !folds_offsets(spec.io, spec.in_channels);
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
/// Blocks for up to `capacity` queries; those of the same rows are neighbours.
MINUET_HD constexpr i64 fused_blocks(const FusedSpec& spec, i64 capacity) {
  return (capacity + fused_block_rows(spec) - 1) / fused_block_rows(spec) * fused_column_blocks(spec) *
         spec.cluster;
}
/// Of a launch, those of a shortcut among them.
MINUET_HD constexpr i64 fused_grid(const FusedSpec& spec, i64 capacity) {
  const i64 blocks = fused_blocks(spec, capacity), alone = blocks / spec.cluster;
  return spec.shortcut ? blocks + (alone + spec.cluster - 1) / spec.cluster * spec.cluster : blocks;
}
MINUET_HD constexpr i32 fused_least_sm(const FusedSpec& spec) {
  const bool copies_bulk = spec.weights == WeightRoad::BulkCopy || spec.weights == WeightRoad::BulkRefill;
  return copies_bulk || spec.cluster > 1 || spec.programmatic ? 90 : 80;
}
MINUET_HD constexpr const char* fused_exact_arch(const FusedSpec& spec) {
  return spec.unit == MmaUnit::Warpgroup ? "sm_90a" : "";
}
template <class Spec>
MINUET_HD constexpr i32 fused_stage_bytes(const Spec& spec) {
  return spec.step * spec.columns * dtype_bytes(spec.io);
}

// ---- columns of a block ---------------------------------------------------------------------------------
//
// Products make tiles of columns; of each, a lane has two. The channels of some tiles lie interleaved, so
// that it has as many consecutive ones as 16 bytes hold.

/// Columns of a tile.
template <class Spec>
MINUET_HD constexpr i32 fused_tile(const Spec& spec) {
  return spec.unit == MmaUnit::Warpgroup ? 8 : 16;
}

/// Tiles whose channels lie interleaved: a lane's consecutive channels are two of each.
struct FusedColumnGroup {
  i32 first, tiles;  // tiles of the block
  i32 number;        // among the groups
};
template <class Spec>
MINUET_HD constexpr FusedColumnGroup fused_column_group(const Spec& spec, i32 tile) {
  i32 first = 0, tiles = 8 / dtype_bytes(spec.io);
  for (i32 number = 0;; ++number) {
    while (first + tiles > spec.columns / fused_tile(spec)) tiles /= 2;
    if (tile < first + tiles) return {first, tiles, number};
    first += tiles;
  }
}

/// The channel of column `column` of a tile, in its block. Of a tile's columns, lane part p (t in a
/// warpgroup, which has 2 p and 2 p + 1; g in a warp, which has p and p + 8) has two neighbours.
template <class Spec>
MINUET_HD constexpr i32 fused_column(const Spec& spec, i32 tile, i32 column) {
  const bool of_warp = spec.unit == MmaUnit::Warp;
  const i32 part = of_warp ? column % 8 : column / 2, second = of_warp ? column / 8 : column % 2;
  const FusedColumnGroup group = fused_column_group(spec, tile);
  return group.first * fused_tile(spec) + part * 2 * group.tiles + (tile - group.first) * 2 + second;
}

/// Which block of a cluster finishes a group.
MINUET_HD constexpr i32 fused_owner(const FusedSpec& spec, FusedColumnGroup group) {
  const FusedColumnGroup last = fused_column_group(spec, spec.columns / fused_tile(spec) - 1);
  return group.number * spec.cluster / (last.number + 1);
}
/// The tiles of all groups that block `rank` finishes.
struct FusedTiles {
  i32 first, count;
};
MINUET_HD constexpr FusedTiles fused_own_tiles(const FusedSpec& spec, i32 rank) {
  FusedTiles own{0, 0};
  for (i32 tile = 0; tile < spec.columns / fused_tile(spec); ++tile) {
    const i32 owner = fused_owner(spec, fused_column_group(spec, tile));
    if (owner < rank) own.first = tile + 1;
    if (owner == rank) ++own.count;
  }
  return own;
}
MINUET_HD constexpr i32 fused_most_own_tiles(const FusedSpec& spec) {
  i32 most = 0;
  for (i32 rank = 0; rank < spec.cluster; ++rank) {
    const i32 count = fused_own_tiles(spec, rank).count;
    if (count > most) most = count;
  }
  return most;
}

// ---- shared memory --------------------------------------------------------------------------------------

/// Dynamic shared memory: the ring's barriers; the masks of the warps' rows; the ring; in the place of the
/// ring at the end the sums of those that share rows.
MINUET_HD constexpr i32 fused_barrier_bytes(const FusedSpec& spec) {
  const bool copies_bulk = spec.weights == WeightRoad::BulkCopy || spec.weights == WeightRoad::BulkRefill;
  return copies_bulk ? (2 * spec.stages * 8 + 127) / 128 * 128 : 0;
}
MINUET_HD constexpr i32 fused_mask_bytes(const FusedSpec& spec) {
  return (spec.warps * mask_words(spec.volume) * 4 + 127) / 128 * 128;
}
/// Of the sums that a block gets from one other of its cluster.
MINUET_HD constexpr i32 share_block_bytes(const FusedSpec& spec) {
  return fused_block_rows(spec) * fused_tile(spec) * fused_most_own_tiles(spec) * 4;
}
/// Of the sums that a block gets, from its warps and from other blocks.
MINUET_HD constexpr i32 fused_share_bytes(const FusedSpec& spec) {
  const i32 of_warps = (spec.split - 1) * fused_block_rows(spec) * spec.columns * 4;
  const i32 of_blocks = (spec.cluster - 1) * share_block_bytes(spec);
  return of_warps > of_blocks ? of_warps : of_blocks;
}
MINUET_HD constexpr i32 fused_shared_bytes(const FusedSpec& spec) {
  // A warpgroup's ring is aligned to 512 bytes, and shared memory to 128.
  const i32 alignment = spec.unit == MmaUnit::Warpgroup ? 512 - 128 : 0;
  const i32 ring = spec.weights == WeightRoad::Cached ? 0 : spec.stages * fused_stage_bytes(spec) + alignment;
  const i32 shares = fused_share_bytes(spec);
  return fused_barrier_bytes(spec) + fused_mask_bytes(spec) + (ring > shares ? ring : shares);
}

}  // namespace minuet
