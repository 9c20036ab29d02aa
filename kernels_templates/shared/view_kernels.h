// Spec (compile time) and Params (run time) of the kernels that make further views of a kernel map from its
// rows. `queries` is the side that asks: the coarser one, or, of transposed rows, the finer one.
#pragma once

#include "kernels_templates/shared/cell_index.h"
#include "kernels_templates/shared/fused_kernels.h"

namespace minuet {

/// Bits of each query's neighbours, and how many queries have each.
struct MakeMasksSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct MakeMasksParams {
  const i32* rows;         // [volume][queries] a row of the other side, or -1
  const i32* query_count;  // device
  i32 volume;
  u32* masks;   // [mask_words(volume)][queries] bit k % 32 of word k / 32: rows[k] is a row; others are 0
  u32* counts;  // [volume] pairs are added to it
};

// ---- one table of views, which the kernels below share ----------------------------------------

/// Most views that are made together: their table is a kernel's parameter, of at most 4 KB.
constexpr i32 kMostViews = 16;
/// Most offsets that a rank looks at: those farthest from the centre.
constexpr i32 kMostRankedOffsets = 27;
/// Digits of a rank that a sort key has below the highest one.
constexpr i32 kRankDigits = 15;
/// Bits of the short ranks of so many offsets.
MINUET_HD constexpr i32 short_rank_bits(i32 ranked) {
  return ranked <= kRankDigits ? ranked : kRankDigits + bit_width_of(static_cast<u64>(ranked - kRankDigits));
}
/// A sort key is a short rank below a view's number.
constexpr i32 kMostRankKeyBits = bit_width_of(kMostViews - 1) + short_rank_bits(kMostRankedOffsets);
static_assert(kMostRankKeyBits <= 24, "three passes of a sort");

/// Where a view's rows come from.
enum class RowSource : i32 {
  Table,   // ViewJob::rows
  Cells,   // an index of the other side: the rows of a query's neighbours
  Parents  // the same: each query lies in the cell of one row of the other, coarser side, and asks it alone,
           // for the kernel's offsets, one or two an axis, are the places of a cell
};

/// One direction of a map, and what is made of it. A place of an order has entries of the offsets that one of
/// the places has that read together (kRowsTogether).
struct ViewJob {
  const i32* query_count;   // device
  const i32* forward_rows;  // [volume][forward queries] that `rows` are transposed from; null: rows are there
  const i32* forward_count;  // device: forward queries
  i32* rows;                 // [volume][queries] a row of the other side, or -1; of RowSource::Table
  const void* query_keys;    // of the other sources
  u32* masks;                // [mask_words(volume)][queries] as of make_masks
  i32* order;                // [queries] the query of a place; null: neither it nor what follows is made
  i32* ordered_rows;         // rows and masks, with a column for each place
  u32* ordered_masks;
  // What order, and ordered_rows, call a query, and a row of the other side; null: by their numbers.
  const i32* query_names;
  const i32* row_names;
  i64 ordered_stride;  // of these two: at least the number of queries
  // [mask_words(volume)][blocks_of_height(ordered_stride, kLeastBlockHeight)] what any query of a block has.
  u32* block_masks;
  i32* block_orders;  // [block_order_begin(ordered_stride, kBlockHeightCount)], height after height
  KernelGeometry geometry;
  RowSource source;
  i32 source_level;                 // of the index
  i32 has_masks;                    // they are there; 0: they are made
  i32 ranked;                       // how many of `offsets` there are
  u16 offsets[kMostRankedOffsets];  // the highest bit's first
};

/// All orders are one sort: of keys that have the view's number above `rank_bits` bits of rank.
struct ViewsParams {
  ViewJob jobs[kMostViews];
  i32 job_count;
  i32 rank_bits;      // the most that a job's ranks have
  u32* keys;          // [all ordered jobs' queries, end to end]
  u32* queries;       // the same: each key's query
  const u32* sorted;  // `queries` after the sort
  i32* key_count;     // one word, device: how many keys there are
  u32* sort_state;    // becomes 0
  i64 sort_state_words;
  CellIndex index;  // of jobs whose rows are looked up
  const CloudLayout* layout;
};
static_assert(sizeof(ViewsParams) <= 4096, "kernels have 4 KB of parameters");

/// Rows of transposed views -> -1.
struct PresetRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// The rows by which the finer side asks the coarser one; preset to -1. No source twice at one offset.
struct TransposeRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// Masks, where they are not there -> sort keys under which queries of like masks are near each other, full
/// ones first; and a sort's state made ready.
struct RankMasksSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};

/// The number whose Gray code is `code`: each bit is the parity of the code's bits from there up.
MINUET_HD constexpr u32 gray_rank(u32 code) {
  for (i32 step = 1; step < 32; step *= 2) code ^= code >> step;
  return code;
}
/// A rank in fewer bits, as a small float is: where its highest digit is, then the kRankDigits below that
/// one. Of two ranks the greater never has the lesser short one; those below 2^(kRankDigits + 1) are their
/// own.
MINUET_HD u32 short_rank(u32 rank) {
  const u32 above = rank | 1u << kRankDigits;
#if defined(__CUDA_ARCH__)
  const u32 shift = 31 - kRankDigits - __clz(static_cast<i32>(above));
#else
  const u32 shift = 31 - kRankDigits - __builtin_clz(above);
#endif
  return (shift << kRankDigits) + (rank >> shift);
}
/// The bits of query `q` at the ranked offsets, the first one's highest.
MINUET_HD u32 mask_code(const u32* masks, i64 queries, i64 q, const u16* offsets, i32 ranked) {
  u32 code = 0;
  for (i32 i = 0; i < ranked; ++i)
    code = code << 1 | (masks[offsets[i] / 32 * queries + q] >> offsets[i] % 32 & 1u);
  return code;
}
/// The sort key of a code: next to it are masks that differ in few of the offsets, and those that have the
/// first of them come first.
MINUET_HD u32 rank_of_code(u32 code, i32 ranked) {
  return short_rank(~0u >> (32 - ranked)) - short_rank(gray_rank(code));
}

/// Most different numbers of offsets that orders of blocks tell apart.
constexpr i32 kMostBlockWeights = 64;
/// 0 for all offsets of a kernel.
MINUET_HD constexpr i32 block_weight(i32 offsets, i32 volume) {
  if (volume < kMostBlockWeights) return volume - offsets;
  return static_cast<i32>(i64{volume - offsets} * (kMostBlockWeights - 1) / volume);
}

/// Of more, which are many waves on any GPU, what ends last is short anyway.
constexpr i64 kMostSortedBlocks = 8192;
/// Masks of blocks -> orders of blocks: those whose queries have the most offsets first, so that what ends
/// last is short. Blocks past the last query, and more than kMostSortedBlocks, keep their places. Among
/// equals the order may differ from run to run: results do not depend on it.
struct OrderBlocksSpec {
  i32 threads = 1024;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// What the sort found -> orders, rows and masks by them, and what any query of a least block has. Of views
/// whose rows lie in a table, and whose masks are there.
struct OrderRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// The same of views whose rows are looked up.
struct OrderCellsSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};

}  // namespace minuet
