// This file declares the Spec (compile time) and Params (run time) of the kernels that make views of a kernel
// map. A view gives for each query the row of its neighbour at each kernel offset. The queries are the rows
// of the view's output side, which is the coarser side of the map, or the finer side if the view is
// transposed. All pointers are device pointers.
#pragma once

#include "kernels_templates/shared/fused_kernels.h"
#include "kernels_templates/shared/voxel_index.h"

namespace minuet {

/// The kernel make_masks computes the mask of each query, with a bit for each offset at which the query has a
/// neighbour. It also counts the queries per offset.
struct MakeMasksSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct MakeMasksParams {
  const i32* rows;  // Has the shape [volume][queries] and holds the row of each neighbour, or -1.
  const i32* query_count;
  i32 volume;
  /// Has the shape [mask_words(volume)][queries]. Bit k % 32 of word k / 32 is set if rows[k] holds a row.
  /// Bits past the volume are 0.
  u32* masks;
  u32* counts;  // Has `volume` elements. The kernel adds the number of pairs of each offset to them.
};

// The following kernels share a table of views, ViewsParams::jobs.

/// Limits the number of views (ViewJob) per launch. Their table is a kernel parameter of at most 4 KB.
constexpr i32 kMostViews = 16;
/// Limits the number of kernel offsets that the rank of a mask (rank_of_code()) depends on. These are the
/// offsets farthest from the kernel's centre.
constexpr i32 kMostRankedOffsets = 27;
/// Describes the ranks of a view's masks (rank_of_code()). Ranks are sort keys that bring similar masks
/// together.
struct MaskRanks {
  u32 count;
  /// Each offset in turn divides intervals of ranks in two. This is the fraction of an interval, in units of
  /// 2^-32, for the masks whose bit of the offset is set.
  u32 share;
};
/// Returns a ranking with at most `most` ranks for masks of `ranked` offsets. If these masks are few enough,
/// each has a rank of its own. Otherwise the masks that have an offset get less than half of the ranks, since
/// most offsets are missing from most masks, and even less if there are few ranks. On LiDAR sweeps, depth
/// images and random points, this wastes less work in blocks of 16 rows than equal parts do, whose ranks
/// would be the highest bits of a Gray code.
MINUET_HD constexpr MaskRanks mask_ranks(i32 ranked, u32 most) {
  constexpr u32 kHalf = 1u << 31, kQuarter = 1u << 30, kThreeTenths = 1288490189;
  if (1u << ranked <= most) return {1u << ranked, kHalf};
  return {most, most < 1u << 18 ? kQuarter : kThreeTenths};
}
/// Limits the number of bits of the sort keys. The views (ViewJob) of a launch are sorted together, so the
/// keys of each view are above those of the views before it.
constexpr i32 kMostRankKeyBits = 24;

/// Selects where the rows of a view (ViewJob) come from.
enum class RowSource : i32 {
  Table,  // The rows are in ViewJob::rows.
  /// The rows of a query's neighbours are looked up in an index of both sides of the map.
  Neighbours,
  /// The kernel's offsets are the places of finer voxels in a coarser voxel, one or two per axis, and the
  /// queries are the coarser voxels. One index (VoxelIndex) has both. ViewJob::rows has the shape [queries]
  /// and holds, for each query, the number of the index's block that contains all its neighbours.
  Children,
  /// The queries are the finer voxels, and each has one neighbour, the coarser voxel that contains it.
  /// ViewJob::rows has the shape [queries] and holds the row of this coarser voxel.
  Parents
};

/// Describes one direction of a kernel map (a view), and the arrays to make from it. A place is a position in
/// the sorted order of the view's queries. A place has entries in ordered_rows at the offsets at which at
/// least one place of its group of kPositionGroup places has a neighbour.
struct ViewJob {
  const i32* query_count;
  /// Holds the rows of the map's opposite direction, in the shape [volume][*forward_count], which are to be
  /// transposed into `rows`. It is null if `rows` is already made.
  const i32* forward_rows;
  const i32* forward_count;  // Points to the number of queries of forward_rows.
  /// Has the shape [volume][queries] and holds the row of each neighbour, or -1, if `source` is
  /// RowSource::Table.
  i32* rows;
  u32* masks;  // Has the shape [mask_words(volume)][queries], as in MakeMasksParams.
  /// Receives the query of each place of the sorted order. If it is null, the kernels make no order and none
  /// of the following arrays.
  i32* order;
  i32* ordered_rows;  // Receives the columns of `rows`, sorted as in `order`.
  /// Receives the columns of `masks`, sorted as in `order`.
  u32* ordered_masks;
  /// The kernels store query_ids[q] for each query q in `order`, and row_ids[r] for each row r in
  /// ordered_rows. These are, for example, the caller's rows. If an array is null, q or r itself is stored.
  const i32* query_ids;
  const i32* row_ids;
  /// Gives the row length of ordered_rows and ordered_masks, at least the number of queries.
  i64 ordered_stride;
  /// Has the shape [mask_words(volume)][blocks_of_height(ordered_stride, kLeastBlockHeight)] and receives the
  /// union of the masks of each kLeastBlockHeight consecutive queries of `order`.
  u32* block_masks;
  /// Has block_order_begin(ordered_stride, kBlockHeightCount) elements and receives, for each of
  /// kBlockHeights, the order in which to process the blocks of that many queries.
  i32* block_orders;
  KernelGeometry geometry;
  RowSource source;
  /// These are the levels of the queries and of their neighbours in ViewsParams::index. A view with
  /// RowSource::Table has none.
  i32 query_level, source_level;
  i32 has_masks;  // If not 0, the masks are already made. If 0, rank_masks makes them.
  /// Gives the number of kernel offsets that the ranks of the masks depend on, which is the number of used
  /// elements of `offsets`.
  i32 ranked;
  MaskRanks ranks;
  /// Gives the lowest sort key of the view, which is the number of ranks of the views before it.
  u32 first_key;
  /// Holds the kernel offsets that the ranks depend on, beginning with the most significant one.
  u16 offsets[kMostRankedOffsets];
};

struct ViewsParams {
  ViewJob jobs[kMostViews];
  i32 job_count;
  /// Holds the sort keys of the queries of all views that have a ViewJob::order, concatenated.
  u32* keys;
  u32* queries;       // Holds the query of each element of `keys`.
  const u32* sorted;  // Holds the elements of `queries` in the order of their sorted keys.
  i32* key_count;
  u32* sort_state;  // Points to words that rank_masks sets to 0 for the sort.
  i64 sort_state_words;
  const VoxelIndex* index;  // This is the index for views (ViewJob) whose rows are not in a table.
};
static_assert(sizeof(ViewsParams) <= 4096, "kernels have 4 KB of parameters");

/// The kernel preset_rows sets the rows of the views that are transposed (ViewJob::forward_rows) to -1.
struct PresetRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// The kernel transpose_rows transposes forward_rows into `rows`, so that the finer side of the map is the
/// query side. `rows` must be preset to -1. No source may occur twice at one offset.
struct TransposeRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// The kernel rank_masks computes masks that are not made yet. From the masks it computes the sort keys,
/// which place queries with similar masks near each other. It also initialises the state of the sort.
struct RankMasksSpec {
  i32 ndim = 3;
  i32 threads = 512;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};

/// Returns the code of the mask of query `q`. It consists of the mask's bits at the `ranked` kernel offsets
/// in `offsets`, starting at the highest bit of the result. The remaining bits are 0.
MINUET_HD u32 mask_code(const u32* masks, i64 queries, i64 q, const u16* offsets, i32 ranked) {
  u32 code = 0;
  for (i32 i = 0; i < ranked; ++i)
    code |= (masks[offsets[i] / 32 * queries + q] >> offsets[i] % 32 & 1u) << (31 - i);
  return code;
}

/// Describes the part of [0, kRankUnit) that belongs to the mask codes (mask_code()) that begin with certain
/// bits.
struct RankInterval {
  u32 begin, size;
  u32 is_odd;  // Equals 1 if an odd number of the common first bits of the codes is set.
};
constexpr u32 kRankUnit = 1u << 31;
MINUET_HD constexpr u32 part_of_unit(u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 31); }

/// Returns the interval of the mask codes (mask_code()) that begin with the bits of `byte`. After an odd
/// number of set bits, codes with the next bit set come first, otherwise codes without it. Neighbouring codes
/// therefore differ in one bit, as in a Gray code.
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
/// Returns the part of the interval `first` that belongs to the mask codes whose next bits are those of the
/// interval `next`.
MINUET_HD constexpr RankInterval narrowed(const RankInterval& first, const RankInterval& next) {
  const u32 begin = first.is_odd != 0 ? kRankUnit - next.begin - next.size : next.begin;
  return {first.begin + part_of_unit(first.size, begin), part_of_unit(first.size, next.size),
          first.is_odd ^ next.is_odd};
}
/// Returns the rank of a mask code (mask_code()), which is found by narrowing an interval byte by byte, as in
/// arithmetic coding. Masks of neighbouring ranks differ in few offsets, and masks that have the first ranked
/// offset come first. of_byte(b) must return byte_interval(b, ranks.share).
template <class OfByte>
MINUET_HD u32 rank_of_code(u32 code, const MaskRanks& ranks, const OfByte& of_byte) {
  RankInterval interval = of_byte(code >> 24);
  for (i32 shift = 16; shift >= 0; shift -= 8) interval = narrowed(interval, of_byte(code >> shift & 255u));
  return ranks.count - 1 - part_of_unit(interval.begin, ranks.count);
}

/// Gives the number of different weights by which blocks are ordered.
constexpr i32 kMostBlockWeights = 64;
/// Returns the sort weight of a block whose queries have neighbours at `offsets` of the kernel's offsets. The
/// weight is 0 if these are all offsets.
MINUET_HD constexpr i32 block_weight(i32 offsets, i32 volume) {
  if (volume < kMostBlockWeights) return volume - offsets;
  return static_cast<i32>(i64{volume - offsets} * (kMostBlockWeights - 1) / volume);
}

/// Limits the number of blocks that are sorted. If there are more, they run in many waves on any GPU, so that
/// the last, partly filled wave matters little even without sorting.
constexpr i64 kMostSortedBlocks = 8192;
/// The kernel order_blocks decides in which order the fused kernel processes blocks of queries. Blocks whose
/// queries have neighbours at the most offsets come first, so that the last blocks of a launch are short.
/// Blocks past the last query keep their places, as do all blocks if there are more than kMostSortedBlocks.
/// The order among blocks of equal weight may vary from run to run, but results do not depend on it.
/// The grid has kBlockHeightCount thread blocks for each view. The launch before must be order_rows or
/// order_voxels.
struct OrderBlocksSpec {
  i32 threads = 1024;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// From the sorted queries, the kernel order_rows makes `order`, `ordered_rows`, `ordered_masks` and
/// `block_masks` of each view (ViewJob). It handles views whose rows are in a table and whose masks are made.
struct OrderRowsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// Gives the number of threads of the kernel order_voxels that a multiprocessor is to run at a time.
constexpr i32 kOrderThreads = 1024;
/// The kernel order_voxels makes the same arrays as order_rows, for views (ViewJob) whose rows are looked up
/// in an index (voxel_index.h).
struct OrderVoxelsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};

}  // namespace minuet
