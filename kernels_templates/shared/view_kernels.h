// Spec (compile time) and Params (run time) of the kernels that make further views of a kernel map. The
// queries of a view are its output side: the coarser side of the map, or the finer side if the view is
// transposed.
#pragma once

#include "kernels_templates/shared/cell_index.h"
#include "kernels_templates/shared/fused_kernels.h"

namespace minuet {

/// Computes the mask of each query, with a bit for each offset at which it has a neighbour, and counts the
/// queries per offset.
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
  u32* masks;   // [mask_words(volume)][queries] bit k % 32 of word k / 32: rows[k] is a row; bits past the
                // volume are 0
  u32* counts;  // [volume] pairs are added to it
};

// ---- a table of views, shared by the kernels below ---------------------------------------------

/// Maximum number of views per launch. Their table is a kernel parameter of at most 4 KB.
constexpr i32 kMostViews = 16;
/// Maximum number of offsets that a rank depends on: those farthest from the centre.
constexpr i32 kMostRankedOffsets = 27;
/// The ranks of a view's masks (rank_of_code()).
struct MaskRanks {
  u32 count;
  u32 share;  // fraction, in units of 2^-32, of each interval of ranks that goes to the masks that have the
              // next offset
};
/// Returns at most `most` ranks. If the masks of `ranked` offsets are few enough, each has a rank of its own.
/// Otherwise the masks that have an offset get less than half of the ranks, since most offsets are missing
/// from most masks, and even less if there are few ranks. On LiDAR sweeps, depth images and random points
/// this wastes less work in blocks of 16 rows than equal shares do (the highest bits of a Gray code).
MINUET_HD constexpr MaskRanks mask_ranks(i32 ranked, u32 most) {
  constexpr u32 kHalf = 1u << 31, kQuarter = 1u << 30, kThreeTenths = 1288490189;
  if (1u << ranked <= most) return {1u << ranked, kHalf};
  return {most, most < 1u << 18 ? kQuarter : kThreeTenths};
}
/// Maximum number of bits of the sort keys of all views of a launch. Each view's ranks are above those of the
/// views before it.
constexpr i32 kMostRankKeyBits = 24;

/// Where a view's rows come from.
enum class RowSource : i32 {
  Table,   // ViewJob::rows
  Cells,   // looked up in an index of the other side: the rows of a query's neighbours
  Parents  // looked up in an index of the other, coarser side: the one row in whose cell the query is. The
           // kernel's offsets, one or two per axis, are the places in a cell.
};

/// One direction of a map, and the arrays to make from it. A place is a position in the view's order. It has
/// entries at the offsets that at least one place of its group of kPositionGroup has.
struct ViewJob {
  const i32* query_count;    // device
  const i32* forward_rows;   // [volume][forward queries] rows to transpose into `rows`; null: `rows` is
                             // already made
  const i32* forward_count;  // device: number of forward queries
  i32* rows;                 // [volume][queries] a row of the other side, or -1; for RowSource::Table
  const void* query_keys;    // for the other sources
  u32* masks;                // [mask_words(volume)][queries] as in MakeMasksParams
  i32* order;                // [queries] the query of a place; null: no order is made, and none of the arrays
                             // that follow
  i32* ordered_rows;         // rows and masks with a column per place
  u32* ordered_masks;
  // Numbers under which order stores a query and ordered_rows a row of the other side, for example the
  // caller's rows. Null: the row numbers themselves.
  const i32* query_ids;
  const i32* row_ids;
  i64 ordered_stride;  // of ordered_rows and ordered_masks; at least the number of queries
  // [mask_words(volume)][blocks_of_height(ordered_stride, kLeastBlockHeight)] union of the masks of a block's
  // places.
  u32* block_masks;
  i32* block_orders;  // [block_order_begin(ordered_stride, kBlockHeightCount)] orders of blocks, one per
                      // height
  KernelGeometry geometry;
  RowSource source;
  i32 source_level;                 // level of the index
  i32 has_masks;                    // not 0: masks are already made; 0: rank_masks makes them
  i32 ranked;                       // number of `offsets`
  MaskRanks ranks;                  // of this view's masks
  u32 first_key;                    // number of ranks of the views before it
  u16 offsets[kMostRankedOffsets];  // ranked offsets, the one of the highest bit first
};

struct ViewsParams {
  ViewJob jobs[kMostViews];
  i32 job_count;
  u32* keys;          // [queries of all ordered jobs, concatenated]
  u32* queries;       // the query of each key
  const u32* sorted;  // `queries` after the sort
  i32* key_count;     // device, one word: the number of keys
  u32* sort_state;    // set to 0
  i64 sort_state_words;
  CellIndex index;  // for jobs whose rows are looked up
  const CloudLayout* layout;
};
static_assert(sizeof(ViewsParams) <= 4096, "kernels have 4 KB of parameters");

/// Sets the rows of transposed views to -1.
struct PresetRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// Transposes rows, so that the finer side is the query side. The result must be preset to -1. No source may
/// occur twice at one offset.
struct TransposeRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// Computes masks that are not made yet, and from masks the sort keys, which place queries with similar masks
/// near each other. It also initialises the state of the sort.
struct RankMasksSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};

/// Returns the bits of query `q` at the ranked offsets, starting at the highest bit; the remaining bits are
/// 0.
MINUET_HD u32 mask_code(const u32* masks, i64 queries, i64 q, const u16* offsets, i32 ranked) {
  u32 code = 0;
  for (i32 i = 0; i < ranked; ++i)
    code |= (masks[offsets[i] / 32 * queries + q] >> offsets[i] % 32 & 1u) << (31 - i);
  return code;
}

/// The part of [0, kRankUnit) of the codes that begin with certain bits.
struct RankInterval {
  u32 begin, size;
  u32 is_odd;  // 1 if an odd number of these bits is set
};
constexpr u32 kRankUnit = 1u << 31;
MINUET_HD constexpr u32 part_of_unit(u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 31); }

/// Returns the interval of the codes that begin with a byte. After an odd number of set bits, codes with the
/// next bit set come first, otherwise codes without it. Neighbouring codes therefore differ in one bit, as in
/// a Gray code.
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
/// Returns the part of interval `first` of the codes whose next bits are those of `next`.
MINUET_HD constexpr RankInterval narrowed(const RankInterval& first, const RankInterval& next) {
  const u32 begin = first.is_odd != 0 ? kRankUnit - next.begin - next.size : next.begin;
  return {first.begin + part_of_unit(first.size, begin), part_of_unit(first.size, next.size),
          first.is_odd ^ next.is_odd};
}
/// Returns the rank of a code, computed like an arithmetic code. Masks of neighbouring ranks differ in few
/// offsets, and masks that have the first ranked offset come first. of_byte(b) must return byte_interval(b,
/// ranks.share).
template <class OfByte>
MINUET_HD u32 rank_of_code(u32 code, const MaskRanks& ranks, const OfByte& of_byte) {
  RankInterval interval = of_byte(code >> 24);
  for (i32 shift = 16; shift >= 0; shift -= 8) interval = narrowed(interval, of_byte(code >> shift & 255u));
  return ranks.count - 1 - part_of_unit(interval.begin, ranks.count);
}

/// Number of different weights by which blocks are ordered.
constexpr i32 kMostBlockWeights = 64;
/// Returns the sort key of a block that has `offsets` offsets: 0 if it has all offsets of the kernel.
MINUET_HD constexpr i32 block_weight(i32 offsets, i32 volume) {
  if (volume < kMostBlockWeights) return volume - offsets;
  return static_cast<i32>(i64{volume - offsets} * (kMostBlockWeights - 1) / volume);
}

/// More blocks than this are many waves on any GPU, so their tail is short without sorting.
constexpr i64 kMostSortedBlocks = 8192;
/// Makes orders of blocks from their masks: blocks whose queries have the most offsets come first, so that
/// the last blocks of a launch are short. Blocks past the last query keep their places, as do all blocks if
/// there are more than kMostSortedBlocks. The order among equals may vary from run to run; results do not
/// depend on it.
struct OrderBlocksSpec {
  i32 threads = 1024;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// Makes, from the sorted queries, the order, the ordered rows and masks, and the masks of the smallest
/// blocks. It handles views whose rows are in a table and whose masks are made.
struct OrderRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// Does the same for views whose rows are looked up in an index.
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
