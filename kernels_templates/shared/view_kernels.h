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
/// The ranks of a view's masks (rank_of_code()).
struct MaskRanks {
  u32 count;
  u32 share;  // in 2^-32: of the ranks of all that agree so far, those of the ones that have the next offset
};
/// At most `most`: of few offsets each mask has a rank of its own. Of more, most are missing from most masks,
/// and the fewer ranks there are the less is left for masks that have many. Work over needed work by blocks
/// of 16 rows (a sweep, a depth image, random points with 4 neighbours a row; in brackets all bits of the
/// masks): 2^20 ranks 1.35, 1.21, 1.37 (1.35, 1.18, 1.37); 12,288 ranks 1.41, 1.30, 1.76; 2^20 ranks by
/// shares of a half, which is a Gray code's highest bits, 1.52, 1.25, 2.21.
MINUET_HD constexpr MaskRanks mask_ranks(i32 ranked, u32 most) {
  constexpr u32 kHalf = 1u << 31, kQuarter = 1u << 30, kThreeTenths = 1288490189;
  if (1u << ranked <= most) return {1u << ranked, kHalf};
  return {most, most < 1u << 18 ? kQuarter : kThreeTenths};
}
/// Bits of the numbers that views are sorted by: each view's ranks lie above those of the views before it.
constexpr i32 kMostRankKeyBits = 24;

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
  MaskRanks ranks;                  // of its masks
  u32 first_key;                    // ranks of the views before
  u16 offsets[kMostRankedOffsets];  // the highest bit's first
};

struct ViewsParams {
  ViewJob jobs[kMostViews];
  i32 job_count;
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

/// Masks, where they are not there -> sort keys under which queries of like masks are near each other; and a
/// sort's state made ready.
struct RankMasksSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};

/// The bits of query `q` at the ranked offsets, the first one's highest, none behind the last.
MINUET_HD u32 mask_code(const u32* masks, i64 queries, i64 q, const u16* offsets, i32 ranked) {
  u32 code = 0;
  for (i32 i = 0; i < ranked; ++i)
    code |= (masks[offsets[i] / 32 * queries + q] >> offsets[i] % 32 & 1u) << (31 - i);
  return code;
}

/// The part of [0, kRankUnit) that codes have which begin with certain bits.
struct RankInterval {
  u32 begin, size;
  u32 is_odd;  // 1: of the bits an odd number is there
};
constexpr u32 kRankUnit = 1u << 31;
MINUET_HD constexpr u32 part_of_unit(u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 31); }

/// Of the codes that begin with a byte. Behind an odd number of bits those that have the next one come first,
/// else those that lack it: as in a Gray code, neighbours differ in one bit.
MINUET_HD constexpr RankInterval byte_interval(u32 byte, u32 share) {
  RankInterval interval{0, kRankUnit, 0};
  for (i32 bit = 7; bit >= 0; --bit) {
    const u32 having = static_cast<u32>(u64{interval.size} * share >> 32), lacking = interval.size - having;
    const u32 has = byte >> bit & 1u;
    if (has != interval.is_odd) interval.begin += has != 0 ? lacking : having;
    interval.size = has != 0 ? having : lacking;
    interval.is_odd ^= has;
  }
  return interval;
}
/// Of those that begin with the bits of `first`, the codes that go on with those of `next`.
MINUET_HD constexpr RankInterval narrowed(const RankInterval& first, const RankInterval& next) {
  const u32 begin = first.is_odd != 0 ? kRankUnit - next.begin - next.size : next.begin;
  return {first.begin + part_of_unit(first.size, begin), part_of_unit(first.size, next.size),
          first.is_odd ^ next.is_odd};
}
/// The rank of a code, an arithmetic code of it: next to it are masks that differ in few of the offsets, and
/// those that have the first of them come first. of_byte(b): byte_interval(b, ranks.share).
template <class OfByte>
MINUET_HD u32 rank_of_code(u32 code, const MaskRanks& ranks, const OfByte& of_byte) {
  RankInterval interval = of_byte(code >> 24);
  for (i32 shift = 16; shift >= 0; shift -= 8) interval = narrowed(interval, of_byte(code >> shift & 255u));
  return ranks.count - 1 - part_of_unit(interval.begin, ranks.count);
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
