// Spec (compile time) and Params (run time) of the fused dataflow: one kernel per layer.
//
//   output[q] = epilogue(sum over offsets k of input[rows[k][q]] * weights[k])
//
// The sum runs over the flattened depth (offset, input channel) in steps of `step` elements; one stage of
// weights holds the weights of one step. A step stays within one offset, except in layers of few input
// channels, whose steps cover several offsets each.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// How a block's weights reach its tensor cores.
enum class WeightRoad : i32 {
  Cached,     // each warp reads them through the cache on its own; for few channels
  AsyncCopy,  // a ring in shared memory, filled by all threads (cp.async)
  BulkCopy,   // a ring in shared memory, filled by a dedicated warp with bulk copies; requires sm_90
  BulkRefill  // the same ring, filled by the multiplying warps in turn
};

/// The unit that computes a product.
enum class MmaUnit : i32 {
  Warp,      // mma.sync
  Warpgroup  // wgmma: 64 rows per product, weights from a ring; sm_90a only, and not for fp32
};

struct FusedSpec {
  DType io = DType::F16;
  i32 in_channels = 64, out_channels = 64;
  i32 volume = 27;    // offsets of the kernel
  i32 step = 64;      // elements along the depth per stage of weights
  i32 columns = 64;   // output channels per block, a multiple of 16
  i32 row_tiles = 2;  // tiles of 8 output rows per warp; 2 with warpgroups
  i32 warps = 4;      // warps along the rows of a block; whole warpgroups with Warpgroup
  i32 split = 1;      // warps that share the same rows and take the steps in turn; 1 with warpgroups
  i32 cluster = 1;    // blocks that share the same rows and take a part of the offsets each; > 1 requires
                      // sm_90
  i32 prefetch = 2;   // steps whose input rows are loaded ahead, in flight or in registers
  i32 stages = 4;     // of the ring
  i32 blocks = 1;     // resident blocks per multiprocessor that the register count must allow
  WeightRoad weights = WeightRoad::AsyncCopy;
  MmaUnit unit = MmaUnit::Warp;
  bool early_loads = false;   // warpgroups only: true loads the next input before a step's products, not
                              // after starting them
  bool programmatic = false;  // true: starts before the preceding launch has ended; requires sm_90
  i32 input_bytes = 16;       // widest access that divides every input row's start and length, at most 16
  i32 output_bytes = 16;      // widest access that divides every output and residual row's start and length,
                              // at most 16
  bool scale_shift = true;
  bool residual = false;
  bool shortcut = false;  // true: additional blocks compute a 1x1 convolution of the same input and channels
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

/// A residual block's shortcut convolution, computed in the launch of the residual block's first layer by
/// additional thread blocks, which do not form clusters that share rows. It uses the middle offset of the
/// kernel, at which each query is its own source. It applies scale and shift if the Spec has them, and no
/// activation.
struct FusedShortcut {
  u32 first_block;      // of the grid: fused_blocks()
  const void* weights;  // image of [1][in_channels][out_channels]
  const float* scale;
  const float* shift;
  void* output;
  i32 output_ld;
  u32* overflow;
};

/// A position is a query's place in an order. Each block handles fused_block_rows(spec) positions. The grid
/// has fused_grid(spec, capacity) blocks.
struct FusedParams {
  const void* input;
  i32 input_ld;
  const i32* rows;    // [volume][row_stride] source row or -1; undefined at offsets that no position of a
                      // group of kPositionGroup has; null if volume is 1 and each query is its own source
  const u32* masks;   // [mask_words(volume)][row_stride] bit k % 32 of word k / 32: rows[k] is a row; null if
                      // rows is null
  i32 row_stride;     // of rows and masks
  const i32* order;   // [count] the query of a position, which is its row of output and residual; null: the
                      // position itself
  i32 ordered_views;  // not 0: columns of rows and masks are positions; 0: columns are queries
  const i32* block_order;  // [row blocks] in the order in which blocks start, the row block that each
                           // computes; null: in ascending order
  const i32* query_count;  // on the device
  i64 padded_rows;         // output rows from the count up to this number become zeros
  const void* weights;     // image of [volume][in_channels][out_channels], aligned to 16 bytes
  const float* scale;      // [out_channels], aligned to 16 bytes as is shift; null if the Spec has none
  const float* shift;
  const void* residual;
  i32 residual_ld;
  void* output;
  i32 output_ld;
  u32* overflow;           // set to overflow_mark if an infinite or NaN number is written, otherwise
                           // unchanged
  u32 overflow_mark;       // not 0
  float slope;             // of the Spec's leaky ReLU; other activations do not read it
  FusedShortcut shortcut;  // read only if the Spec has a shortcut
};

MINUET_HD constexpr i32 mask_words(i32 volume) { return (volume + 31) / 32; }

/// Returns the threads of a block. With BulkCopy the last warp fills the ring.
MINUET_HD constexpr i32 fused_threads(const FusedSpec& spec) {
  return 32 * (spec.warps * spec.split + (spec.weights == WeightRoad::BulkCopy ? 1 : 0));
}
MINUET_HD constexpr i32 fused_block_rows(const FusedSpec& spec) { return 8 * spec.row_tiles * spec.warps; }
/// Returns the number of positions of a warp or warpgroup, which skips an offset if none of them has it.
MINUET_HD constexpr i32 fused_unit_rows(const FusedSpec& spec) {
  return 8 * spec.row_tiles * (spec.unit == MmaUnit::Warpgroup ? 4 : 1);
}
/// Positions per group: position i belongs to group i / kPositionGroup. All positions of a group have entries
/// at the same offsets. It is a multiple of fused_unit_rows() of every Spec.
constexpr i32 kPositionGroup = 64;

/// Block heights (in rows) for which an ordered view has an order of its blocks.
constexpr i32 kBlockHeights[] = {32, 64, 128, 192};
constexpr i32 kBlockHeightCount = 4, kLeastBlockHeight = 32;
MINUET_HD constexpr i64 blocks_of_height(i64 queries, i32 height) { return (queries + height - 1) / height; }
/// Returns where the order of height `which` begins in the concatenated orders of a view of `capacity`
/// queries. For kBlockHeightCount it returns their total length.
MINUET_HD constexpr i64 block_order_begin(i64 capacity, i32 which) {
  i64 begin = 0;
  for (i32 i = 0; i < which; ++i) begin += blocks_of_height(capacity, kBlockHeights[i]);
  return begin;
}
/// Returns the index in kBlockHeights of the Spec's block height, or -1.
MINUET_HD constexpr i32 block_order_of(const FusedSpec& spec) {
  for (i32 i = 0; i < kBlockHeightCount; ++i) {
    if (kBlockHeights[i] == fused_block_rows(spec)) return i;
  }
  return -1;
}

// ---- the depth ------------------------------------------------------------------------------------------

/// Returns the number of elements in 32 bytes along the depth, the depth of one tensor core product: 16 of 16
/// bits, or 8 of 32 bits.
MINUET_HD constexpr i32 fused_granule(DType io) { return 32 / dtype_bytes(io); }

/// Returns true if the 16 bytes of input that a lane loads hold all channels of an offset. Steps then cover
/// several offsets.
MINUET_HD constexpr bool folds_offsets(DType io, i32 in_channels) {
  return in_channels * dtype_bytes(io) <= 16;
}

/// Returns true if a warp skips the products of tiles that have no row. With few channels the products cost
/// less than the test.
MINUET_HD constexpr bool fused_skips_tiles(const FusedSpec& spec) {
  return spec.unit == MmaUnit::Warp && spec.row_tiles > 1 && spec.weights != WeightRoad::Cached &&
         !folds_offsets(spec.io, spec.in_channels);
}
/// Returns the elements of the depth per offset: its channels padded with zeros.
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
/// Returns the number of steps of all offsets together.
template <class Spec>
MINUET_HD constexpr i32 fused_steps(const Spec& spec) {
  return (spec.volume * fused_offset_depth(spec) + spec.step - 1) / spec.step;
}
template <class Spec>
MINUET_HD constexpr i32 fused_column_blocks(const Spec& spec) {
  return (spec.out_channels + spec.columns - 1) / spec.columns;
}
/// Returns the number of blocks for up to `capacity` queries. Blocks of the same rows are neighbours.
MINUET_HD constexpr i64 fused_blocks(const FusedSpec& spec, i64 capacity) {
  return (capacity + fused_block_rows(spec) - 1) / fused_block_rows(spec) * fused_column_blocks(spec) *
         spec.cluster;
}
/// Returns the number of blocks of a launch, including those of a shortcut.
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
// Products compute tiles of columns, of which a lane holds two columns each. The channels of some tiles are
// interleaved, so that a lane holds as many consecutive channels as fit in 16 bytes.

/// Returns the number of columns of a tile.
template <class Spec>
MINUET_HD constexpr i32 fused_tile(const Spec& spec) {
  return spec.unit == MmaUnit::Warpgroup ? 8 : 16;
}

/// A group of tiles whose channels are interleaved: a lane's consecutive channels are two of each tile.
struct FusedColumnGroup {
  i32 first, tiles;  // first tile in the block, and number of tiles
  i32 number;        // index of the group in the block
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

/// Returns the channel, within the block, of column `column` of a tile. The lanes with part p get two
/// neighbouring channels of each tile: p is t in a warpgroup (columns 2 p and 2 p + 1), and g in a warp
/// (columns p and p + 8).
template <class Spec>
MINUET_HD constexpr i32 fused_column(const Spec& spec, i32 tile, i32 column) {
  const bool of_warp = spec.unit == MmaUnit::Warp;
  const i32 part = of_warp ? column % 8 : column / 2, second = of_warp ? column / 8 : column % 2;
  const FusedColumnGroup group = fused_column_group(spec, tile);
  return group.first * fused_tile(spec) + part * 2 * group.tiles + (tile - group.first) * 2 + second;
}

/// Returns the rank of the block of a cluster that finishes a group.
MINUET_HD constexpr i32 fused_owner(const FusedSpec& spec, FusedColumnGroup group) {
  const FusedColumnGroup last = fused_column_group(spec, spec.columns / fused_tile(spec) - 1);
  return group.number * spec.cluster / (last.number + 1);
}
/// The tiles of all groups that one block of a cluster finishes.
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

/// Dynamic shared memory holds the barriers of the ring, the masks of the warps' rows, and the ring. At the
/// end the sums of warps and blocks that share rows replace the ring.
MINUET_HD constexpr i32 fused_barrier_bytes(const FusedSpec& spec) {
  const bool copies_bulk = spec.weights == WeightRoad::BulkCopy || spec.weights == WeightRoad::BulkRefill;
  return copies_bulk ? (2 * spec.stages * 8 + 127) / 128 * 128 : 0;
}
MINUET_HD constexpr i32 fused_mask_bytes(const FusedSpec& spec) {
  return (spec.warps * mask_words(spec.volume) * 4 + 127) / 128 * 128;
}
/// Returns the bytes of the sums that a block gets from one other block of its cluster.
MINUET_HD constexpr i32 share_block_bytes(const FusedSpec& spec) {
  return fused_block_rows(spec) * fused_tile(spec) * fused_most_own_tiles(spec) * 4;
}
/// Returns the bytes of the sums that a block gets from its own warps or from other blocks.
MINUET_HD constexpr i32 fused_share_bytes(const FusedSpec& spec) {
  const i32 of_warps = (spec.split - 1) * fused_block_rows(spec) * spec.columns * 4;
  const i32 of_blocks = (spec.cluster - 1) * share_block_bytes(spec);
  return of_warps > of_blocks ? of_warps : of_blocks;
}
MINUET_HD constexpr i32 fused_shared_bytes(const FusedSpec& spec) {
  // A warpgroup's ring is aligned to 512 bytes, while shared memory is aligned to 128.
  const i32 alignment = spec.unit == MmaUnit::Warpgroup ? 512 - 128 : 0;
  const i32 ring = spec.weights == WeightRoad::Cached ? 0 : spec.stages * fused_stage_bytes(spec) + alignment;
  const i32 shares = fused_share_bytes(spec);
  return fused_barrier_bytes(spec) + fused_mask_bytes(spec) + (ring > shares ? ring : shares);
}

}  // namespace minuet
