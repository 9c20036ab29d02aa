// This file declares the Spec (compile time) and Params (run time) of the kernels that pool all rows of each
// batch item into one row. All pointers are device pointers.
//
// The rows of a level are not sorted by batch item. So the kernels list_item_rows and start_item_rows first
// list them by item, in ascending order within an item. The rows are divided into `splits` parts. For each
// item and each part, a word of ItemRowsParams::places says where the next row of the item goes. These words
// first count rows (ItemRowsSpec::lists is false), then start_item_rows replaces them by the sums of the
// words before, and then list_item_rows moves each word to the end of its rows while it lists them. One batch
// item needs no list.
//
// The list is divided into pieces of equally many rows. The kernel pool_items pools each piece, and
// join_items combines the results of items that several pieces share.
#pragma once

#include "kernels_templates/shared/pool_kernels.h"
#include "kernels_templates/shared/types.h"

namespace minuet {

/// Limits the parts of the rows that are listed at the same time, and the words that they need. A part has at
/// least kLeastSplitRows rows.
constexpr i32 kMostItemSplits = 1024, kMostItemWords = 1 << 18, kLeastSplitRows = 128;
/// Returns into how many parts at most `rows` rows of `batch` items are divided while they are listed. The
/// list does not depend on it.
MINUET_HD constexpr i32 item_splits(i32 batch, i64 rows) {
  const i64 by_words = batch > 0 ? kMostItemWords / batch : kMostItemSplits;
  const i64 by_rows = (rows + kLeastSplitRows - 1) / kLeastSplitRows;
  const i64 least = by_words < by_rows ? by_words : by_rows;
  return static_cast<i32>(least < 1 ? 1 : least > kMostItemSplits ? kMostItemSplits : least);
}

/// The kernel list_item_rows adds, to the word of each row's item and part, the number of its rows. With
/// `lists`, it also stores each row at the place that the word gave before.
struct ItemRowsSpec {
  i32 ndim = 3;
  bool lists = false;
  i32 threads = 128;
  bool operator==(const ItemRowsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("lists", lists), visitor("threads", threads);
  }
};
struct ItemRowsParams {
  const i32* coordinates;  // Holds coordinates, batch first, in the shape [*count, 1 + ndim].
  const i32* count;        // Points to the number of rows.
  i32 batch;               // Gives the number of batch items. Rows of other items are left out.
  i32 splits;              // Gives the number of parts of the rows (item_splits()).
  u32* places;             // Has the shape [batch, splits].
  i32* rows;               // Receives the list of the rows. It is used only with ItemRowsSpec::lists.
};

/// The kernel start_item_rows replaces each word by the sum of the words before it. It runs as one block.
struct StartItemRowsSpec {
  i32 threads = 1024;
  bool operator==(const StartItemRowsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct StartItemRowsParams {
  u32* words;
  i64 count;
};

/// Limits the pieces of the list. A piece has at least kLeastPieceRows rows.
constexpr i32 kMostPieces = 512, kLeastPieceRows = 64;
/// Returns the number of rows in each piece, except for the last one, of a list of `rows` rows. The pieces
/// depend on nothing else, so that sums repeat bit by bit from run to run.
MINUET_HD constexpr i64 rows_of_piece(i64 rows) {
  const i64 each = (rows + kMostPieces - 1) / kMostPieces;
  return each < kLeastPieceRows ? kLeastPieceRows : each;
}
MINUET_HD constexpr i64 pieces_of(i64 rows) { return (rows + rows_of_piece(rows) - 1) / rows_of_piece(rows); }

/// The kernels pool_items and join_items compute out[b] = reduction of in[r] over the rows r of item b, in
/// fp32 and in a fixed order. The result of an item without rows is 0.
struct PoolItemsSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 vector_bytes = 16;  // Gives the width of one access, which divides every row's start and length.
  Reduction reduction = Reduction::Max;
  i32 threads = 256;
  bool operator==(const PoolItemsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("vector_bytes", vector_bytes),
        visitor("reduction", reduction), visitor("threads", threads);
  }
};
struct JoinItemsSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 vector_bytes = 16;  // This member and the next are as in PoolItemsSpec.
  Reduction reduction = Reduction::Max;
  i32 threads = 256;
  bool operator==(const JoinItemsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("vector_bytes", vector_bytes),
        visitor("reduction", reduction), visitor("threads", threads);
  }
};
struct PoolItemsParams {
  const void* input;
  i64 input_ld;
  const i32* input_count;  // Points to the number of input rows.
  /// Holds the rows by item. If the pointer is null, there is one item, which has all rows.
  const i32* rows;
  const u32* places;  // Is ItemRowsParams::places after all rows are listed.
  i32 splits;
  const i32* output_count;  // Points to the number of batch items, or to 0 if nothing is to be pooled.
  i64 output_rows;          // Is at least *output_count.
  i32 pads_output;          // If not 0, output rows at and after *output_count become zeros.
  void* output;
  i64 output_ld;
  /// Has the shape [kMostPieces, 2, channels]. Each piece may share its first and its last item with others.
  float* partials;
  /// The kernels set *overflow to overflow_mark if they write an infinite or NaN number, and otherwise leave
  /// it unchanged.
  u32* overflow;
  u32 overflow_mark;
};

/// Says how a block of pool_items or join_items divides its work: which vectors of a row it reads, and how
/// many rows it reads at the same time.
struct ItemTile {
  i32 vectors;  // Gives the number of vectors of a row.
  i32 width;    // Gives the number of vectors that a block reads of each row.
  i32 chunks;   // Gives the number of blocks that share a row.
  i32 lanes;    // Gives the number of rows that a block reads at the same time.
};
template <class Spec>
MINUET_HD constexpr ItemTile item_tile(const Spec& spec, i32 most_width) {
  ItemTile tile = {};
  tile.vectors = spec.channels * dtype_bytes(spec.io) / spec.vector_bytes;
  tile.chunks = (tile.vectors + most_width - 1) / most_width;
  tile.width = (tile.vectors + tile.chunks - 1) / tile.chunks;
  tile.lanes = spec.threads / tile.width;
  return tile;
}
MINUET_HD constexpr ItemTile item_tile(const PoolItemsSpec& spec) { return item_tile(spec, spec.threads); }
/// There are few pieces and few items, so several blocks share the channels of an item.
MINUET_HD constexpr ItemTile item_tile(const JoinItemsSpec& spec) { return item_tile(spec, 8); }

}  // namespace minuet
