// This file declares the Spec (compile time) and Params (run time) of the fused kernel, which computes a
// whole layer in one launch:
//
//   output[q] = epilogue(sum over offsets k of input[rows[k][q]] * weights[k])
//
// The sum runs over the flattened depth, whose elements are the pairs (offset, input channel). The kernel
// processes the depth in steps of `step` elements. A stage of weights holds the weights of one step. A step
// stays within one offset, except in layers of few input channels, whose steps cover several offsets each.
// All pointers in Params are device pointers.
#pragma once

#include "kernels_templates/shared/fused_tiles.h"

namespace minuet {

/// Selects how the weights of a block reach its tensor cores.
enum class WeightRoad : i32 {
  Cached,      // Each warp reads the weights through the cache on its own, which suits few channels.
  AsyncCopy,   // All threads fill a ring of stages in shared memory with cp.async.
  BulkCopy,    // A dedicated warp fills a ring of stages with bulk copies, which require sm_90.
  BulkRefill,  // The warps that multiply take turns in filling a ring of stages with bulk copies.
  /// Shared memory holds all weights of a persistent block (FusedSpec::persistent), which copies them once,
  /// with bulk copies. Its warpgroups share nothing else, and each computes tiles of its own.
  Resident
};

/// Selects the unit that computes a product.
enum class MmaUnit : i32 {
  Warp,  // A warp computes a product with mma.sync.
  /// A warpgroup computes 64 rows per product with wgmma and reads the weights from shared memory. This
  /// requires sm_90a and does not work for fp32.
  Warpgroup
};

/// Selects the type of the elements of a tensor other than the input.
enum class FusedType : i32 { OfInput, F32, F16, BF16, U8, S8 };
MINUET_HD constexpr DType type_of(FusedType type, DType input) {
  switch (type) {
    case FusedType::F32:
      return DType::F32;
    case FusedType::F16:
      return DType::F16;
    case FusedType::BF16:
      return DType::BF16;
    case FusedType::U8:
      return DType::U8;
    case FusedType::S8:
      return DType::S8;
    case FusedType::OfInput:
      break;
  }
  return input;
}

struct FusedSpec {
  DType io = DType::F16;  // Gives the type of the input. The weights of an input of 8 bits are S8.
  // These give the types of the output, of the residual and of the second output. A residual has 8 bits if
  // the input has, and only then.
  FusedType output_type = FusedType::OfInput, residual_type = FusedType::OfInput;
  FusedType second_type = FusedType::OfInput;
  FusedType shortcut_type = FusedType::OfInput;  // Gives the type of the output of a shortcut.
  i32 in_channels = 64, out_channels = 64;
  i32 volume = 27;    // Gives the number of offsets of the convolution kernel.
  i32 step = 64;      // Gives the number of depth elements (offset, input channel) that one step processes.
  i32 columns = 64;   // Gives the number of output channels per block, a multiple of 16.
  i32 row_tiles = 2;  // Gives the number of tiles of 8 output rows per warp. Warpgroups need 2.
  i32 warps = 4;      // Gives the number of warps along the rows of a block. Warpgroups need a multiple of 4.
  /// Gives the number of warps that compute the same rows and take the steps of the reduction in turn.
  /// Warpgroups need 1.
  i32 split = 1;
  /// Gives the number of blocks that share the same rows and take a part of the offsets each. A number above
  /// 1 requires sm_90.
  i32 cluster = 1;
  /// Gives the number of steps whose input rows a warp loads ahead of the products. These rows are in flight
  /// or in registers.
  i32 prefetch = 2;
  i32 stages = 4;  // Gives the number of stages in the ring of weights.
  /// Gives the number of resident blocks per multiprocessor that the registers per thread must allow.
  i32 blocks = 1;
  WeightRoad weights = WeightRoad::AsyncCopy;
  MmaUnit unit = MmaUnit::Warp;
  /// Matters for warpgroups only. If true, the next input loads start before the products of a step. If
  /// false, they start right after these products have been started.
  bool early_loads = false;
  /// Matters only if fused_stages_rows(). If true, each warp copies the numbers of all input rows that it
  /// reads into shared memory before its first step. If false, it loads those of one offset at a time.
  bool staged_rows = false;
  /// If true, each warpgroup computes one tile after another, where a tile is the rows and columns that a
  /// block of one warpgroup computes otherwise. The weights, row numbers and first input rows of the next
  /// tile load while a tile ends. This requires staged row numbers, at most 32 offsets, and either Resident,
  /// or BulkRefill and one warpgroup per block.
  bool persistent = false;
  /// True means that the kernel may start before the preceding launch has ended, which requires sm_90.
  bool programmatic = false;
  /// Gives the width in bytes of the widest access, at most 16, that divides the start and the length of
  /// every input row.
  i32 input_bytes = 16;
  /// Gives the width in bytes of an access to an output row. An access covers the same number of elements in
  /// every output and residual row. This is the largest number for which each access is at most 16 bytes and
  /// divides the start and the length of its row.
  i32 output_bytes = 16;
  bool scale_shift = true;  // Is true if the input has 8 bits.
  bool residual = false;
  /// True means that additional blocks compute a 1x1 convolution of the same input and channels.
  bool shortcut = false;
  Activation activation = Activation::ReLU;
  /// True means that the kernel writes a second output too (SecondOutput), with `second_activation`. It
  /// cannot compute a shortcut then.
  bool second_output = false;
  Activation second_activation = Activation::None;
  bool operator==(const FusedSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("output_type", output_type), visitor("residual_type", residual_type),
        visitor("second_type", second_type), visitor("shortcut_type", shortcut_type),
        visitor("in_channels", in_channels), visitor("out_channels", out_channels), visitor("volume", volume),
        visitor("step", step), visitor("columns", columns), visitor("row_tiles", row_tiles),
        visitor("warps", warps), visitor("split", split), visitor("cluster", cluster),
        visitor("prefetch", prefetch), visitor("stages", stages), visitor("blocks", blocks),
        visitor("weights", weights), visitor("unit", unit), visitor("early_loads", early_loads),
        visitor("staged_rows", staged_rows), visitor("persistent", persistent),
        visitor("programmatic", programmatic), visitor("input_bytes", input_bytes),
        visitor("output_bytes", output_bytes), visitor("scale_shift", scale_shift),
        visitor("residual", residual), visitor("shortcut", shortcut), visitor("activation", activation),
        visitor("second_output", second_output), visitor("second_activation", second_activation);
  }
};

// The following functions return the types of the elements of a kernel's tensors.
MINUET_HD constexpr DType fused_output_type(const FusedSpec& spec) {
  return type_of(spec.output_type, spec.io);
}
MINUET_HD constexpr DType fused_residual_type(const FusedSpec& spec) {
  return type_of(spec.residual_type, spec.io);
}
MINUET_HD constexpr DType fused_second_type(const FusedSpec& spec) {
  return type_of(spec.second_type, spec.io);
}
MINUET_HD constexpr DType fused_shortcut_type(const FusedSpec& spec) {
  return type_of(spec.shortcut_type, spec.io);
}
/// Returns true if a tensor of the kernel has 8-bit elements.
MINUET_HD constexpr bool has_integers(const FusedSpec& spec) {
  return is_integer(spec.io) || is_integer(fused_output_type(spec)) ||
         is_integer(fused_residual_type(spec)) || is_integer(fused_second_type(spec)) ||
         is_integer(fused_shortcut_type(spec));
}
/// Returns the number of elements of an access to an output row.
MINUET_HD constexpr i32 fused_access(const FusedSpec& spec) {
  return spec.output_bytes / dtype_bytes(fused_output_type(spec));
}
/// Returns true if a positive factor in front of the activation is the same as one behind it.
MINUET_HD constexpr bool commutes_with_factors(Activation activation) {
  return activation == Activation::None || activation == Activation::ReLU;
}
/// Returns true if the kernel multiplies the activated numbers of an 8-bit output by
/// FusedParams::output_factor. Otherwise FusedParams::scale contains the factor.
MINUET_HD constexpr bool scales_output(const FusedSpec& spec) {
  return is_integer(fused_output_type(spec)) &&
         (!is_integer(spec.io) || !commutes_with_factors(spec.activation));
}
/// Does the same for the second output and FusedParams::second_factor.
MINUET_HD constexpr bool scales_second(const FusedSpec& spec) {
  return is_integer(fused_second_type(spec)) && !commutes_with_factors(spec.second_activation);
}

/// Describes a residual block's shortcut convolution. Additional thread blocks compute it in the launch of
/// the residual block's first layer. These blocks do not form clusters that share rows. The shortcut uses the
/// middle offset of the kernel, at which each query is its own source. It applies scale and shift if the Spec
/// has them, and no activation. They are applied as FusedParams::scale says. If its output has 8 bits, the
/// input has 8 bits too, and the scale contains the factor of the output.
struct FusedShortcut {
  /// Gives the index of the first thread block that computes the shortcut, which is fused_blocks().
  u32 first_block;
  /// Points to the image (fused_image.h) of weights of the shape [1][in_channels][out_channels].
  const void* weights;
  const float* scale;
  const float* shift;
  void* output;
  i32 output_ld;
  u32* overflow;
};

/// Holds the arguments of the fused kernel. A position is a query's place in an order. Each block handles
/// fused_block_rows(spec) positions, and the grid has fused_grid(spec, capacity) blocks. A warpgroup of a
/// persistent block handles as many positions at a time, and a grid of any size gives the same result.
struct FusedParams {
  const void* input;
  i32 input_ld;
  /// Has the shape [volume][row_stride] and holds source rows, or -1. With `ordered_views`, an entry is
  /// undefined if no column of its group of kPositionGroup columns has a source at the offset. The pointer is
  /// null if volume is 1 and each query is its own source.
  const i32* rows;
  /// Has the shape [mask_words(volume)][row_stride]. Bit k % 32 of word k / 32 is set if rows[k] holds a row.
  /// The pointer is null if `rows` is null.
  const u32* masks;
  i32 row_stride;  // Gives the distance in elements between the rows of `rows` and `masks`.
  /// Holds the order of the queries, which is the query at each position below *query_count. The query is
  /// also the number of its row in the output and the residual. If this is null, the position itself is the
  /// query.
  const i32* order;
  /// If not 0, the columns of `rows` and `masks` are positions in `order`. If 0, the columns are queries.
  i32 ordered_views;
  /// Lists the row blocks, of fused_block_rows() positions in `order` each, in the sequence in which thread
  /// blocks start and compute them. If this is null, the sequence is ascending. A persistent kernel computes
  /// only as many as have queries or padding, so the list must begin with these.
  const i32* block_order;
  const i32* query_count;
  /// If not 0, the launch right before this one writes no weights and none of the arrays from `rows` to
  /// `query_count`, so that a programmatic kernel reads them before that launch has ended
  /// (core/early_loads.h).
  i32 reads_early;
  /// The kernel writes zeros to the output rows from *query_count up to this number.
  i64 padded_rows;
  /// Points to the image (fused_image.h) of weights of the shape [volume][in_channels][out_channels], aligned
  /// to 16 bytes.
  const void* weights;
  /// Has out_channels elements and is aligned to 16 bytes, as are `shift` and `residual_factor`. Scale and
  /// shift are null if the Spec has no scale.
  ///
  /// If the input has 8 bits, the products are added to a 32-bit integer that starts at the integer nearest
  /// to residual * residual_factor + shift, rounded once, with 0 for a residual that is not there. The result
  /// is the fp32 number nearest to the sum, times `scale`.
  const float* scale;
  const float* shift;
  const float* residual_factor;
  const void* residual;
  i32 residual_ld;
  void* output;
  i32 output_ld;
  /// The kernel sets *overflow to overflow_mark if a sum or an output is infinite or NaN, and otherwise
  /// leaves it unchanged.
  u32* overflow;
  u32 overflow_mark;       // Gives the value to store in *overflow, which must not be 0.
  float slope;             // Gives the slope of the leaky ReLU. Other activations do not read it.
  float output_factor;     // The kernel reads it only if scales_output(spec).
  float second_factor;     // The kernel reads it only if scales_second(spec).
  FusedShortcut shortcut;  // The kernel reads it only if the Spec has a shortcut.
  SecondOutput second;
};

MINUET_HD constexpr i32 mask_words(i32 volume) { return (volume + 31) / 32; }

/// Returns the number of threads of a block. With BulkCopy, one additional warp, the last, fills the ring.
MINUET_HD constexpr i32 fused_threads(const FusedSpec& spec) {
  return 32 * (spec.warps * spec.split + (spec.weights == WeightRoad::BulkCopy ? 1 : 0));
}
/// Returns the number of queries of a block, or of a tile of a persistent block, which one warpgroup
/// computes.
MINUET_HD constexpr i32 fused_block_rows(const FusedSpec& spec) {
  return 8 * spec.row_tiles * (spec.persistent ? 4 : spec.warps);
}
/// Returns the number of queries of a warp or warpgroup, which skips the kernel offsets at which none of its
/// queries has a neighbour.
MINUET_HD constexpr i32 fused_unit_rows(const FusedSpec& spec) {
  return 8 * spec.row_tiles * (spec.unit == MmaUnit::Warpgroup ? 4 : 1);
}
/// Gives the number of positions per group. In an ordered view (ViewJob), position i belongs to the group
/// with index i / kPositionGroup, and the table of rows has entries for all positions of a group at each
/// offset at which one of them has a neighbour. The number is a multiple of fused_unit_rows() of every Spec.
constexpr i32 kPositionGroup = 64;
/// Returns the distance in elements between the rows of the tables of an ordered view of up to `queries`
/// queries. These rows begin at multiples of 16 bytes, so that a kernel can copy four entries at once.
MINUET_HD constexpr i64 ordered_row_stride(i64 queries) { return (queries + 3) / 4 * 4; }

/// Lists the numbers of rows per block for which ViewJob::block_orders has an order of the blocks. They are
/// multiples of 4, so ordered_row_stride() queries make as many blocks as the queries themselves.
constexpr i32 kBlockHeights[] = {32, 64, 128, 192};
constexpr i32 kBlockHeightCount = 4, kLeastBlockHeight = 32;
MINUET_HD constexpr i64 blocks_of_height(i64 queries, i32 height) { return (queries + height - 1) / height; }
/// Returns where the order for kBlockHeights[which] begins in ViewJob::block_orders, for a view of `capacity`
/// queries. For kBlockHeightCount it returns the length of that array.
MINUET_HD constexpr i64 block_order_begin(i64 capacity, i32 which) {
  i64 begin = 0;
  for (i32 i = 0; i < which; ++i) begin += blocks_of_height(capacity, kBlockHeights[i]);
  return begin;
}
/// Returns the index in kBlockHeights of the Spec's number of rows per block, or -1 if it is not there.
MINUET_HD constexpr i32 block_order_of(const FusedSpec& spec) {
  for (i32 i = 0; i < kBlockHeightCount; ++i) {
    if (kBlockHeights[i] == fused_block_rows(spec)) return i;
  }
  return -1;
}

// The following functions compute sizes along the flattened depth, which is the reduction over the pairs
// (offset, input channel).

/// Returns the number of elements in 32 bytes along the depth, which is the depth of one tensor core product.
/// It is 32 for elements of 8 bits, 16 for elements of 16 bits, and 8 for elements of 32 bits.
MINUET_HD constexpr i32 fused_granule(DType io) { return 32 / dtype_bytes(io); }

/// Returns true if the 16 bytes of input that a lane loads at once hold all input channels, so that steps
/// cover several kernel offsets.
MINUET_HD constexpr bool folds_offsets(DType io, i32 in_channels) {
  return in_channels * dtype_bytes(io) <= 16;
}

/// Returns true if a warp skips the products of tiles of queries that have no neighbour at an offset. With
/// few channels, the products cost less than the test.
MINUET_HD constexpr bool fused_skips_tiles(const FusedSpec& spec) {
  return spec.unit == MmaUnit::Warp && spec.row_tiles > 1 && spec.weights != WeightRoad::Cached &&
         !folds_offsets(spec.io, spec.in_channels);
}
/// Returns true if each warp copies row numbers into shared memory before its first step. A kernel of one
/// offset reads each row number only once, and if steps cover several offsets, the row numbers of a step are
/// loaded together anyway, so `staged_rows` does not matter for them.
MINUET_HD constexpr bool fused_stages_rows(const FusedSpec& spec) {
  return spec.staged_rows && spec.volume > 1 && !folds_offsets(spec.io, spec.in_channels);
}
/// Returns the length of one kernel offset along the depth, which is the number of input channels after
/// padding with zeros.
MINUET_HD constexpr i32 fused_offset_depth(DType io, i32 in_channels, i32 step) {
  if (!folds_offsets(io, in_channels)) return (in_channels + step - 1) / step * step;
  // A lane loads at least two bytes at once.
  i32 power = dtype_bytes(io) == 1 ? 2 : 1;
  while (power < in_channels) power *= 2;
  return power;
}

template <class Spec>
MINUET_HD constexpr i32 fused_offset_depth(const Spec& spec) {
  return fused_offset_depth(spec.io, spec.in_channels, spec.step);
}
/// Returns the number of steps in which the kernel processes all offsets.
template <class Spec>
MINUET_HD constexpr i32 fused_steps(const Spec& spec) {
  return (spec.volume * fused_offset_depth(spec) + spec.step - 1) / spec.step;
}
template <class Spec>
MINUET_HD constexpr i32 fused_column_blocks(const Spec& spec) {
  return (spec.out_channels + spec.columns - 1) / spec.columns;
}
/// Returns the number of thread blocks for up to `capacity` queries, without those of a shortcut. Blocks that
/// compute the same rows have consecutive indices.
MINUET_HD constexpr i64 fused_blocks(const FusedSpec& spec, i64 capacity) {
  return (capacity + fused_block_rows(spec) - 1) / fused_block_rows(spec) * fused_column_blocks(spec) *
         spec.cluster;
}
/// Returns the number of blocks of a launch, including those of a shortcut.
MINUET_HD constexpr i64 fused_grid(const FusedSpec& spec, i64 capacity) {
  const i64 blocks = fused_blocks(spec, capacity), alone = blocks / spec.cluster;
  return spec.shortcut ? blocks + (alone + spec.cluster - 1) / spec.cluster * spec.cluster : blocks;
}
/// Returns the number of blocks of a launch of a persistent kernel. These are as many as run at once, or
/// fewer if there are fewer tiles than warpgroups.
MINUET_HD constexpr i64 fused_persistent_grid(const FusedSpec& spec, i64 capacity, i32 multiprocessors) {
  const i64 at_once = i64{spec.blocks} * multiprocessors;
  const i64 warpgroups = spec.warps / 4;
  const i64 needed = (fused_grid(spec, capacity) + warpgroups - 1) / warpgroups;
  return needed < at_once ? needed : at_once;
}
/// Returns true if the weights reach shared memory by bulk copies.
MINUET_HD constexpr bool fused_copies_bulk(const FusedSpec& spec) {
  return spec.weights == WeightRoad::BulkCopy || spec.weights == WeightRoad::BulkRefill ||
         spec.weights == WeightRoad::Resident;
}
MINUET_HD constexpr i32 fused_least_sm(const FusedSpec& spec) {
  return fused_copies_bulk(spec) || spec.cluster > 1 || spec.programmatic ? 90 : 80;
}
MINUET_HD constexpr const char* fused_exact_arch(const FusedSpec& spec) {
  return spec.unit == MmaUnit::Warpgroup ? "sm_90a" : "";
}
template <class Spec>
MINUET_HD constexpr i32 fused_stage_bytes(const Spec& spec) {
  return spec.step * spec.columns * dtype_bytes(spec.io);
}

// The following functions describe the columns of a block, which are its output channels. Products compute
// tiles of columns, of which a lane holds two columns each. The channels of some tiles are interleaved, so
// that a lane holds as many consecutive channels as fit in 16 bytes, and at most eight.

/// Returns the number of columns of a tile.
template <class Spec>
MINUET_HD constexpr i32 fused_tile(const Spec& spec) {
  return spec.unit == MmaUnit::Warpgroup ? 8 : 16;
}

/// Describes a group of tiles whose channels are interleaved. A lane's consecutive channels are two of each
/// tile.
struct FusedColumnGroup {
  i32 first, tiles;  // These are the group's first tile in the block and its number of tiles.
  i32 number;        // Gives the index of the group in the block.
};
template <class Spec>
MINUET_HD constexpr FusedColumnGroup fused_column_group(const Spec& spec, i32 tile) {
  // Fewer and larger groups of 8-bit elements would be too few for the blocks of a cluster.
  i32 first = 0, tiles = dtype_bytes(spec.io) == 1 ? 4 : 8 / dtype_bytes(spec.io);
  for (i32 number = 0;; ++number) {
    while (first + tiles > spec.columns / fused_tile(spec)) tiles /= 2;
    if (tile < first + tiles) return {first, tiles, number};
    first += tiles;
  }
}

/// Returns the channel, within the block, of column `column` of a tile. Each lane has two columns of a tile,
/// and they get neighbouring channels. With t = lane % 4 and g = lane / 4, these are columns 2 t and 2 t + 1
/// of a warpgroup's tile, or columns g and g + 8 of a warp's tile.
template <class Spec>
MINUET_HD constexpr i32 fused_column(const Spec& spec, i32 tile, i32 column) {
  const bool of_warp = spec.unit == MmaUnit::Warp;
  const i32 part = of_warp ? column % 8 : column / 2, second = of_warp ? column / 8 : column % 2;
  const FusedColumnGroup group = fused_column_group(spec, tile);
  return group.first * fused_tile(spec) + part * 2 * group.tiles + (tile - group.first) * 2 + second;
}

/// Returns the rank of the block in a cluster that adds all blocks' sums of a column group and writes its
/// output.
MINUET_HD constexpr i32 fused_owner(const FusedSpec& spec, FusedColumnGroup group) {
  const FusedColumnGroup last = fused_column_group(spec, spec.columns / fused_tile(spec) - 1);
  return group.number * spec.cluster / (last.number + 1);
}
/// Gives the range of tiles whose output one block of a cluster writes.
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

/// Returns the size in bytes of the barriers of the ring of weights. Dynamic shared memory holds these
/// barriers, the masks of the warps' rows, the staged row numbers, and the ring. At the end, the sums of
/// warps and blocks that compute the same rows replace the ring.
MINUET_HD constexpr i32 fused_barrier_bytes(const FusedSpec& spec) {
  return fused_copies_bulk(spec) ? (2 * spec.stages * 8 + 127) / 128 * 128 : 0;
}
/// Returns the size in bytes of the masks of the warps' rows, and of two words for each warp behind them
/// (ThreadPlace). A persistent block has WarpTiles for each warp instead.
MINUET_HD constexpr i32 fused_mask_bytes(const FusedSpec& spec) {
  const i32 warps = fused_threads(spec) / 32;
  const i32 words = spec.warps * mask_words(spec.volume) + 2 * warps;
  const i32 bytes = spec.persistent ? warps * static_cast<i32>(sizeof(WarpTiles)) : words * 4;
  return (bytes + 127) / 128 * 128;
}
/// Returns the number of row numbers that a warp stages for a tile. In a persistent block, it also stages the
/// numbers of the output rows, behind the others.
MINUET_HD constexpr i32 fused_warp_rows(const FusedSpec& spec) {
  return (spec.volume + (spec.persistent ? 1 : 0)) * 8 * spec.row_tiles;
}
/// Returns the size in bytes of the row numbers that the warps of a block stage. A persistent block stages
/// those of two tiles.
MINUET_HD constexpr i32 fused_staged_bytes(const FusedSpec& spec) {
  const i32 bytes = spec.warps * spec.split * fused_warp_rows(spec) * 4 * (spec.persistent ? 2 : 1);
  return fused_stages_rows(spec) ? (bytes + 127) / 128 * 128 : 0;
}
/// Returns the byte position of the staged row numbers in dynamic shared memory.
MINUET_HD constexpr i32 fused_rows_begin(const FusedSpec& spec) {
  return fused_barrier_bytes(spec) + fused_mask_bytes(spec);
}
/// Returns the byte position of the ring in dynamic shared memory.
MINUET_HD constexpr i32 fused_ring_begin(const FusedSpec& spec) {
  return fused_rows_begin(spec) + fused_staged_bytes(spec);
}
/// Returns the size in bytes of the sums that a block receives from one other block of its cluster.
MINUET_HD constexpr i32 share_block_bytes(const FusedSpec& spec) {
  return fused_block_rows(spec) * fused_tile(spec) * fused_most_own_tiles(spec) * 4;
}
/// Returns the size in bytes of the sums that a block receives from its own warps or from other blocks,
/// whichever is larger.
MINUET_HD constexpr i32 fused_share_bytes(const FusedSpec& spec) {
  const i32 of_warps = (spec.split - 1) * fused_block_rows(spec) * spec.columns * 4;
  const i32 of_blocks = (spec.cluster - 1) * share_block_bytes(spec);
  return of_warps > of_blocks ? of_warps : of_blocks;
}
MINUET_HD constexpr i32 fused_shared_bytes(const FusedSpec& spec) {
  // A warpgroup's ring is aligned to 512 bytes, while shared memory is aligned to 128.
  const i32 alignment = spec.unit == MmaUnit::Warpgroup ? 512 - 128 : 0;
  const i32 stages = spec.weights == WeightRoad::Resident ? fused_steps(spec) : spec.stages;
  const i32 ring = spec.weights == WeightRoad::Cached ? 0 : stages * fused_stage_bytes(spec) + alignment;
  const i32 shares = fused_share_bytes(spec);
  return fused_ring_begin(spec) + (ring > shares ? ring : shares);
}

}  // namespace minuet
