// This file declares the Spec (compile time) and Params (run time) of the kernels of the Map step (Minuet
// paper, section 5.1).
//
// Counts are in device memory, because the device knows them long before the host could read them back. A
// kernel is launched for a capacity and processes the count that it finds. Params are passed by value as the
// only argument. All pointers are device pointers. Rows are numbered in the order of the coordinate set,
// unless they are called the caller's rows.
#pragma once

#include "kernels_templates/shared/key_layout.h"
#include "kernels_templates/shared/reached_cells.h"

namespace minuet {

/// The following constants are bits of the status word that Map kernels set.
constexpr u32 kStatusOutOfBounds = 1u;  // This bit means that a coordinate is outside the declared bounds.
constexpr u32 kStatusNegativeBatch = 2u;
constexpr u32 kStatusDuplicate = 4u;
/// This bit means that there are more coordinates, or rows of a level of an index, than the capacity.
constexpr u32 kStatusPastCapacity = 8u;
/// This bit means that the cloud's extent needs more bits than keys have.
constexpr u32 kStatusKeyTooNarrow = 16u;
/// This bit means that coordinates of a coarser level would exceed 32 bits.
constexpr u32 kStatusTooFar = 32u;
/// This bit means that the hash table of an index (voxel_index.h) has too few slots for the cloud.
constexpr u32 kStatusIndexFull = 64u;
/// This bit means that a coordinate is outside the range of the keys of an index (voxel_index.h).
constexpr u32 kStatusOutsideKeys = 128u;

/// The kernel begin_cloud initialises a cloud whose bounds find_bounds is to compute. It runs as one block.
struct BeginCloudSpec {
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct BeginCloudParams {
  const i32* given_count;  // Points to the number of coordinates. If it is null, the number is `most`.
  /// Gives the capacity. If the given count is larger or negative, the kernel sets the status and a count of
  /// 0.
  i64 most;
  u32* status;  // Receives the status word.
  i32* points;  // Receives the number of coordinates.
  i32* bounds;  // Receives [2][kMaxFields] words, INT_MAX in the first row and INT_MIN in the second.
};

/// Returns the status bits that a layout and its bounds cause if keys have at most `key_bits` bits.
MINUET_HD constexpr u32 layout_status(const CloudLayout& cloud, i32 ndim, const i64* period, i32 key_bits) {
  u32 status = cloud.least[0] < 0 ? kStatusNegativeBatch : 0;
  for (i32 a = 0; a < ndim; ++a) {
    if (floor_to_multiple(cloud.least[a + 1], period[a]) < -0x7fffffff - 1) status |= kStatusTooFar;
  }
  return status | (cloud.keys.total_bits > key_bits ? kStatusKeyTooNarrow : 0);
}

/// The kernel make_layout makes the key layout from a cloud's bounds. If the caller has declared the bounds,
/// it also initialises the number of coordinates and the status. If no valid layout exists, it sets the
/// status, and the number of points to 0. One thread does the work.
struct MakeLayoutSpec {
  i32 ndim = 3;
  i32 threads = 32;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct MakeLayoutParams {
  /// If cloud.bounds is null, the caller has declared the bounds below, and the kernel initialises the cloud.
  /// Otherwise find_bounds found the bounds, and the kernel ORs its bits into the status.
  BeginCloudParams cloud;
  i32 least[kMaxFields];  // Holds the least declared coordinate of each field.
  i32 greatest[kMaxFields];
  /// If not 0, and cloud.bounds is not null, `least` and `greatest` are limits: a cloud whose bounds exceed
  /// them gets kStatusOutOfBounds.
  i32 has_limits;
  i64 guard[kMaxDim];
  i64 period[kMaxDim];
  i32 key_bits;         // Gives the maximum number of bits of a key.
  CloudLayout* layout;  // Receives the layout and the bounds.
};

/// The kernel find_bounds finds the least and the greatest coordinate of each field.
struct FindBoundsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct FindBoundsParams {
  const i32* coordinates;  // Holds coordinates, batch first, in the shape [count, 1 + ndim].
  const i32* count;
  /// Has the shape [2][kMaxFields]. The first row receives the least coordinates and must be preset to
  /// INT_MAX. The second row receives the greatest and must be preset to INT_MIN.
  i32* bounds;
};

/// The kernel pack packs coordinates into keys and stores the caller's row number of each key in `rows`.
struct PackSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct PackParams {
  const i32* coordinates;  // Holds coordinates, batch first, in the shape [count, 1 + ndim].
  const i32* count;
  const CloudLayout* layout;  // A coordinate outside the bounds of this layout sets the status.
  void* keys;                 // Receives `count` keys of the Spec's key type.
  u32* rows;                  // Receives rows[i] = i, the caller's row, unless it is null.
  /// The kernel ORs its status bits into this word. The pointer may be null if all coordinates are known to
  /// be inside the bounds.
  u32* status;
};

/// The kernel unpack unpacks keys into coordinates, without changing their order.
struct UnpackSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct UnpackParams {
  const void* keys;
  const i32* count;
  const CloudLayout* layout;
  i32* coordinates;  // Receives coordinates, batch first, in the shape [count, 1 + ndim].
};

/// The kernel void_failed sets the counts of a cloud to 0 if its status reports an error. It runs as one
/// block.
struct VoidFailedSpec {
  i32 threads = 32;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct VoidFailedParams {
  const u32* status;
  i32* words;  // Points to `counts` numbers, which become 0 if the status has a bit set.
  i64 counts;
};

// The following two kernels form a radix sort. It sorts by the least significant digit first and makes one
// pass over the keys per digit.

constexpr i32 kRadixBits = 8;
constexpr i32 kRadixBins = 1 << kRadixBits;
constexpr i32 kMaxRadixPasses = 8;

/// The kernel radix_histogram counts every digit of every pass in one read of the keys.
struct RadixHistogramSpec {
  KeyType key = KeyType::U32;
  i32 threads = 128;
  i32 items_per_thread = 16;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("threads", threads), visitor("items_per_thread", items_per_thread);
  }
};
struct RadixHistogramParams {
  const void* keys;
  const i32* count;
  u32* bins;  // Receives the digit counts [passes][kRadixBins]. They must be preset to 0.
  i32 begin_bit;
  i32 end_bit;
};

/// The kernel radix_pass sorts by one digit. It is a stable scatter of keys, and optionally of values, with
/// decoupled look-back.
struct RadixPassSpec {
  KeyType key = KeyType::U32;
  bool values = true;  // True means that u32 values move with the keys.
  i32 threads = 512;
  i32 items_per_thread = 17;
  /// Selects the algorithm that scans the digit counts. True uses fewer registers, for tiles with many items.
  bool raking_scan = true;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("values", values), visitor("threads", threads),
        visitor("items_per_thread", items_per_thread), visitor("raking_scan", raking_scan);
  }
};
struct RadixPassParams {
  const i32* count;
  const u32* bins;  // Holds the kRadixBins counts of the digits of this pass.
  u32* lookback;    // Holds the look-back states [tiles][kRadixBins]. They must be preset to 0.
  u32* next_tile;   // Counts the tiles that blocks have taken. It must be preset to 0.
  const void* keys_in;
  void* keys_out;
  const u32* values_in;  // The pointer is null if the Spec has no values.
  u32* values_out;
  i32 bit;   // Gives the lowest bit of the digit.
  i32 bits;  // Gives the width of the digit, from 1 to kRadixBits.
};

/// Selects the numbers that a scan adds up.
enum class ScanInput : i32 {
  Heads32,  // The scan adds 1 for each u32 key that differs from its predecessor.
  Heads64,  // The scan adds 1 for each u64 key that differs from its predecessor.
  Hits,     // The scan adds 1 for each i32 entry of a kernel map that is not negative.
  Values,   // The scan adds the i32 values of its input.
};

/// The kernel scan computes exclusive sums in one pass with decoupled look-back.
struct ScanSpec {
  ScanInput input = ScanInput::Values;
  i32 threads = 128;
  i32 items_per_thread = 16;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("input", input), visitor("threads", threads), visitor("items_per_thread", items_per_thread);
  }
};
/// Holds the arguments of a scan over volume * max(least_items, ceil(*count / divisor)) items. These are the
/// `volume` segments of one kernel map, with one item per query (divisor 1) or per block of source keys
/// (divisor source_block).
struct ScanParams {
  const void* input;
  const i32* count;
  i32 volume;
  i32 divisor;
  i32 least_items;
  i32* output;  // Receives the exclusive sums, then the total as one more item.
  void* tiles;  // Has scan_state_bytes() bytes, which prepare_scans must have initialised.
};

/// Returns the number of items that a scan adds up, given the count found on the device.
MINUET_HD constexpr i64 scan_items(const ScanParams& p, i64 count) {
  const i64 segment = (count + p.divisor - 1) / p.divisor;
  return p.volume * (segment < p.least_items ? p.least_items : segment);
}

/// The kernel prepare_scans initialises the look-back state of many scans in one launch. It also sets the
/// words at `zeros` to 0.
struct PrepareScansSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct PrepareScansParams {
  void* tiles;  // Holds the state of each scan, stride_bytes apart.
  i64 stride_bytes;
  i32 scans;
  u32* zeros;
  i64 zero_words;
};

/// Gives the number of states before that of the first tile. CUB's look-back reads 32 states at once, one per
/// lane, and may begin before the first tile.
constexpr i32 kScanPaddingTiles = 32;
constexpr i32 kScanTileBytes = 8;

MINUET_HD constexpr i64 scan_tiles(const ScanSpec& spec, i64 items) {
  const i64 tile = static_cast<i64>(spec.threads) * spec.items_per_thread;
  return (items + tile) / tile;  // The output has one item more than the input, which is the total.
}
/// Returns the size in bytes of one scan's look-back state, a multiple of 256.
MINUET_HD constexpr i64 scan_state_bytes(const ScanSpec& spec, i64 items) {
  return ((scan_tiles(spec, items) + kScanPaddingTiles) * kScanTileBytes + 255) / 256 * 256;
}

/// The kernel unique keeps the first of equal keys. `positions` is a scan of the sorted keys with
/// ScanInput::Heads32 or ScanInput::Heads64. Key i belongs to unique row positions[i + 1] - 1.
struct UniqueSpec {
  KeyType key = KeyType::U32;
  bool rows = true;  // True means that UniqueParams::rows gives the caller's row of each key.
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("rows", rows), visitor("threads", threads);
  }
};
struct UniqueParams {
  const void* keys;  // Holds `count` sorted keys.
  const u32* rows;   // Holds the caller's row of each key, or is null.
  const i32* count;
  const i32* positions;
  void* unique_keys;
  i32* unique_count;     // Receives the number of unique keys.
  i64 capacity;          // Limits the number of unique keys. Further ones set the status and are not written.
  u32 duplicate_status;  // The kernel sets these status bits if a key occurs twice.
  u32* status;           // The kernel ORs its status bits into this word.
  /// Receives, for each unique key, the caller's first row with this key, unless the pointer is null.
  i32* source_row;
  /// Receives, for each of the caller's rows, the index of its unique key, unless the pointer is null.
  i32* row_of;
};

/// The kernel downsample floors keys to a stride. The result is the coarser set, still unsorted and with
/// duplicates.
struct DownsampleSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct DownsampleParams {
  const void* keys;
  const i32* count;
  const CloudLayout* layout;
  i32 stride[kMaxDim];  // Gives the stride of the coarser set, in cells of the finest grid.
  void* floored;
};

/// The kernel reach_keys computes the keys of the coordinates that follow from those of another set.
struct ReachKeysSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct ReachKeysParams {
  const void* keys;  // Holds the `*count` keys of the parent set.
  const i32* count;
  const CloudLayout* layout;
  LevelSource source;
  /// Holds the `*other_count` ascending keys of the set that must have the coordinates too. It is null unless
  /// the new set is an intersection.
  const void* others;
  const i32* other_count;
  void* reached;       // Receives the keys, in any order. Equal keys may occur.
  u32* reached_count;  // Receives the number of these keys. It must be 0 before.
};

// The following two kernels form the double-traversed binary search (Minuet paper, section 5.1.2).

/// Returns the number of blocks of `source_block` keys each. An empty source has one empty block, so that
/// every query gets a result.
MINUET_HD constexpr i64 source_blocks(i64 sources, i32 source_block) {
  return sources <= 0 ? 1 : (sources + source_block - 1) / source_block;
}

/// The kernel find_query_borders is the backward search of the double-traversed binary search. Per kernel
/// offset and source block, it finds the border, which is the first query whose sum with the offset is
/// greater than the block's last key. The border of the last block is the number of queries, and queries past
/// its last key find no source.
struct FindQueryBordersSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 source_block = 256;  // Gives the number of keys per source block, B in the Minuet paper.
  i32 query_block = 512;   // Gives the maximum number of queries per query block, C in the Minuet paper.
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("source_block", source_block),
        visitor("query_block", query_block), visitor("threads", threads);
  }
};
struct FindQueryBordersParams {
  const void* source_keys;
  const i32* source_count;
  const void* query_keys;
  const i32* query_count;
  const CloudLayout* layout;
  KernelGeometry geometry;
  /// Has the shape [volume][source blocks] and receives the border of each source block, which is one past
  /// the last query that is searched for in it.
  i32* borders;
  /// Has the shape [volume][source blocks] and receives the number of query blocks, of at most query_block
  /// queries each, for which each source block is searched.
  i32* pieces;
};

/// The kernel search_kernel_map finds the source row of each query. It is the forward search of the
/// double-traversed binary search and runs after find_query_borders, the backward search. One thread block
/// handles one query block. It stages the source block with the matching keys in shared memory, and searches
/// it there.
struct SearchKernelMapSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 source_block = 256;  // Gives the number of keys per source block, B in the Minuet paper.
  i32 query_block = 512;   // Gives the maximum number of queries per query block, C in the Minuet paper.
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("source_block", source_block),
        visitor("query_block", query_block), visitor("threads", threads);
  }
};
struct SearchKernelMapParams {
  const void* source_keys;
  const i32* source_count;
  const void* query_keys;
  const i32* query_count;
  const CloudLayout* layout;
  KernelGeometry geometry;
  const i32* borders;       // Holds the borders from find_query_borders, of shape [volume][source blocks].
  const i32* piece_starts;  // Holds the exclusive sums of FindQueryBordersParams::pieces, then the total.
  i32* map;                 // Has the shape [volume][queries]. Every entry becomes the source row or -1.
};

/// The kernel count_pairs computes counts[k], the number of pairs of offset k, from a scan of the map with
/// ScanInput::Hits. It has work for one block only.
struct CountPairsSpec {
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct CountPairsParams {
  /// Holds, for each entry of map[volume][queries], the number of entries before it that are not -1, then the
  /// total.
  const i32* positions;
  const i32* query_count;
  i32 volume;
  i32* counts;  // Receives the number of pairs of each of the `volume` offsets.
};

/// The kernel compact_pairs writes the pairs of kernel maps without gaps, each map's ordered by offset, then
/// by query row.
struct CompactPairsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
/// Describes one map and where its pairs are written.
struct PairsJob {
  i32 first_block;  // The blocks from this one up to that of the next map work on this map.
  // Holds source rows, or -1, in the shape [volume][queries]. If it is null, the volume is 1, and each query
  // has the source of the same number. `positions` is not read then.
  const i32* map;
  const i32* positions;    // Holds, for each entry of `map`, the number of entries before it that are not -1.
  const i32* query_count;  // Points to the number of queries. Null means that it is `queries`.
  i64 queries;
  i32 volume;
  /// Element i holds the number that the kernel writes for source row i or query row i. Null means i itself.
  const i32 *source_numbers, *query_numbers;
  /// These arrays receive the offset, the source row and the query row of pair n at element n * step.
  /// `offsets` may be null.
  i32 *offsets, *sources, *targets;
  i64 step;
  i64 capacity;     // Only pairs with a number below this limit are written.
  i32* pair_count;  // Receives the number of all pairs. It may be null.
};
/// A launch of compact_pairs writes the pairs of at most this many maps.
inline constexpr i32 kMostPairsJobs = 16;
struct CompactPairsParams {
  PairsJob jobs[kMostPairsJobs];
  i32 count;  // Counts the jobs.
};

/// The kernel make_tables makes the metadata tables, which hold the buffer row of each map entry. Buffer rows
/// include the padding rows of the GEMM groups.
struct MakeTablesSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct MakeTablesParams {
  const i32* map;        // Holds source rows, or -1, in the shape [volume][queries].
  const i32* positions;  // Holds, for each entry of `map`, the number of entries before it that are not -1.
  const i32* row_base;   // Holds the first buffer row of each of the `volume` offsets.
  i64 queries;
  i64 sources;
  i32 volume;
  /// Gives the index of the offset whose rows a GEMM reads in place, so that they have no buffer rows, or -1.
  i32 direct_offset;
  /// Has the shape [volume][sources] and must be preset to -1. It receives the buffer row of each (offset,
  /// source).
  i32* source_table;
  i32* query_table;  // Has the shape [volume][queries]. Every entry becomes a buffer row or -1.
};

}  // namespace minuet
