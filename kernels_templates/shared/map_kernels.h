// Spec (compile time) and Params (run time) of the kernels of the Map step (paper, section 5.1).
//
// Counts are in device memory, because the device knows them long before the host could read them back. A
// kernel is launched for a capacity and processes the count that it finds. Params are passed by value as the
// only argument. All pointers are device pointers. All rows are in engine order (ascending keys).
#pragma once

#include "kernels_templates/shared/key_layout.h"

namespace minuet {

/// Bits of the status word that Map kernels set.
constexpr u32 kStatusOutOfBounds = 1u;  // a coordinate is outside the declared bounds
constexpr u32 kStatusNegativeBatch = 2u;
constexpr u32 kStatusDuplicate = 4u;
constexpr u32 kStatusPastCapacity = 8u;   // more coordinates, or rows of a level, than capacity
constexpr u32 kStatusKeyTooNarrow = 16u;  // the cloud's extent needs more bits than keys have
constexpr u32 kStatusTooFar = 32u;        // coordinates of a coarser level would exceed 32 bits
constexpr u32 kStatusTooManyCells = 64u;  // the cloud's extent has more cells than the index has room for

// ---- a cloud's count, bounds and layout ------------------------------------------------------

/// Initialises a cloud whose bounds are to be found. One block.
struct BeginCloudSpec {
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct BeginCloudParams {
  const i32* given_count;  // device; null: there are `most` coordinates
  i64 most;                // capacity; if the given count is larger or negative, the status is set and the
                           // count becomes 0
  u32* status;             // out: one word
  i32* points;             // out: one word
  i32* bounds;             // out: [2][kMaxFields] INT_MAX, then INT_MIN
};

/// Returns the status bits that a layout and its bounds cause if keys have at most `key_bits` bits.
MINUET_HD constexpr u32 layout_status(const CloudLayout& cloud, i32 ndim, const i64* period, i32 key_bits) {
  u32 status = cloud.least[0] < 0 ? kStatusNegativeBatch : 0;
  for (i32 a = 0; a < ndim; ++a) {
    if (floor_to_multiple(cloud.least[a + 1], period[a]) < -0x7fffffff - 1) status |= kStatusTooFar;
  }
  return status | (cloud.keys.total_bits > key_bits ? kStatusKeyTooNarrow : 0);
}

/// Makes the key layout from a cloud's bounds. For declared bounds it also initialises the cloud. If no valid
/// layout exists, it sets the status and the number of points to 0. One thread.
struct MakeLayoutSpec {
  i32 ndim = 3;
  i32 threads = 32;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct MakeLayoutParams {
  BeginCloudParams cloud;  // if bounds is null, the bounds below are declared and the cloud is initialised;
                           // otherwise bounds were found by find_bounds, and status bits are or-ed in
  i32 least[kMaxFields];   // declared bounds
  i32 greatest[kMaxFields];
  i64 guard[kMaxDim];
  i64 period[kMaxDim];
  i32 key_bits;         // maximum number of bits of a key
  CloudLayout* layout;  // out
};

// ---- coordinates -> keys -------------------------------------------------------------------

/// Finds the least and greatest coordinate of each field.
struct FindBoundsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct FindBoundsParams {
  const i32* coordinates;  // [count, 1 + ndim]
  const i32* count;        // device
  i32* bounds;             // [2][kMaxFields] least, preset to INT_MAX, then greatest, preset to INT_MIN
};

/// Packs coordinates into keys and stores the caller's row number beside each key.
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
  const i32* coordinates;     // [count, 1 + ndim]
  const i32* count;           // device
  const CloudLayout* layout;  // device; a coordinate outside its bounds sets the status
  void* keys;                 // [count] Key
  u32* rows;                  // [count] rows[i] = i, the caller's row; or null
  u32* status;                // one word, bits are or-ed in; null if all coordinates are known to be inside
                              // the bounds
};

/// Unpacks keys into coordinates, in engine order.
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
  const i32* count;           // device
  const CloudLayout* layout;  // device
  i32* coordinates;           // [count, 1 + ndim]
};

/// Sets the counts of a failed cloud to 0. One block.
struct VoidFailedSpec {
  i32 threads = 32;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct VoidFailedParams {
  const u32* status;
  i32* words;  // [counts]
  i64 counts;
};

// ---- radix sort (least significant digit first, one pass over the keys per digit) ------------

constexpr i32 kRadixBits = 8;
constexpr i32 kRadixBins = 1 << kRadixBits;
constexpr i32 kMaxRadixPasses = 8;

/// Counts every digit of every pass in one read of the keys.
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
  const i32* count;  // device
  u32* bins;         // [passes][kRadixBins], preset to 0
  i32 begin_bit;
  i32 end_bit;
};

/// Replaces each pass's bins by their exclusive sums, in place. One block per pass.
struct RadixBinsSpec {
  i32 threads = kRadixBins;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct RadixBinsParams {
  u32* bins;  // [passes][kRadixBins]
};

/// Sorts by one digit: a stable scatter of keys (and values) with decoupled look-back.
struct RadixPassSpec {
  KeyType key = KeyType::U32;
  bool values = true;  // true: u32 values move with the keys
  i32 threads = 512;
  i32 items_per_thread = 17;
  bool raking_scan = true;  // algorithm that scans the digit counts; true uses fewer registers, for tiles
                            // with many items
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("values", values), visitor("threads", threads),
        visitor("items_per_thread", items_per_thread), visitor("raking_scan", raking_scan);
  }
};
struct RadixPassParams {
  const i32* count;  // device
  const u32* bins;   // [kRadixBins] exclusive sums of this pass
  u32* lookback;     // [tiles][kRadixBins], preset to 0
  u32* next_tile;    // one word, preset to 0
  const void* keys_in;
  void* keys_out;
  const u32* values_in;  // null without values
  u32* values_out;
  i32 bit;   // lowest bit of the digit
  i32 bits;  // width of the digit, 1 ... kRadixBits
};

// ---- scan ------------------------------------------------------------------------------------

/// The numbers that a scan adds up.
enum class ScanInput : i32 {
  Heads32,  // 1 if a u32 key differs from its predecessor
  Heads64,  // 1 if a u64 key differs from its predecessor
  Hits,     // 1 if an i32 (an entry of a kernel map) is not negative
  Values,   // i32 values
  Bits,     // number of ones of BitWord::bits; the sums go to BitWord::before
};

/// A word of a bitmap and the number of ones in all words before it, so that one 8-byte load reads both.
struct alignas(8) BitWord {
  u32 bits;
  i32 before;
};

/// Computes exclusive sums in one pass with decoupled look-back.
struct ScanSpec {
  ScanInput input = ScanInput::Values;
  i32 threads = 128;
  i32 items_per_thread = 16;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("input", input), visitor("threads", threads), visitor("items_per_thread", items_per_thread);
  }
};
/// The scan covers volume * max(least_items, ceil(*count / divisor)) items: `volume` segments of one kernel
/// map, with one item per query (divisor 1) or per source block (divisor B).
struct ScanParams {
  const void* input;
  const i32* count;  // device
  i32 volume;
  i32 divisor;
  i32 least_items;
  void* output;  // i32 or BitWord: exclusive sums, then the total as one more item
  void* tiles;   // scan_state_bytes(capacity) bytes, initialised by prepare_scans
};

/// Returns the number of items that a scan adds up, given the count found on the device.
MINUET_HD constexpr i64 scan_items(const ScanParams& p, i64 count) {
  const i64 segment = (count + p.divisor - 1) / p.divisor;
  return p.volume * (segment < p.least_items ? p.least_items : segment);
}

/// Initialises the look-back state of many scans in one launch.
struct PrepareScansSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct PrepareScansParams {
  void* tiles;  // [scans] states, stride_bytes apart
  i64 stride_bytes;
  i32 scans;
  u32* zeros;
  i64 zero_words;
};

constexpr i32 kScanPaddingTiles = 32;  // CUB's look-back reads one warp of tiles before the first
constexpr i32 kScanTileBytes = 8;

MINUET_HD constexpr i64 scan_tiles(const ScanSpec& spec, i64 items) {
  const i64 tile = static_cast<i64>(spec.threads) * spec.items_per_thread;
  return (items + tile) / tile;  // one item more than the input, because the total is an output too
}
/// Returns the bytes of one scan's look-back state, a multiple of 256.
MINUET_HD constexpr i64 scan_state_bytes(const ScanSpec& spec, i64 items) {
  return ((scan_tiles(spec, items) + kScanPaddingTiles) * kScanTileBytes + 255) / 256 * 256;
}

// ---- unique, downsample ----------------------------------------------------------------------

/// Keeps the first of equal keys. `positions` is the Heads scan of the sorted keys; key i belongs to unique
/// row positions[i + 1] - 1.
struct UniqueSpec {
  KeyType key = KeyType::U32;
  bool rows = true;  // true: the caller's rows come with the keys
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("rows", rows), visitor("threads", threads);
  }
};
struct UniqueParams {
  const void* keys;  // [count] sorted
  const u32* rows;   // [count] the caller's row of each key, or null
  const i32* count;  // device
  const i32* positions;
  void* unique_keys;
  i32* unique_count;     // device
  i64 capacity;          // of unique keys; further keys set the status and are not written
  u32 duplicate_status;  // status bits to set if a key occurs twice
  u32* status;           // one word, bits are or-ed in
  i32* source_row;       // [unique] the caller's first row with the key, or null
  i32* row_of;           // [count] the unique row of each of the caller's rows, or null
};

/// Floors keys to a stride. The result is the coarser set, still unsorted and with duplicates.
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
  const i32* count;           // device
  const CloudLayout* layout;  // device
  i32 stride[kMaxDim];        // of the coarser set, in cells of the finest grid
  void* floored;
};

// ---- double-traversed binary search (paper, section 5.1.2) -------------------------------------

/// Returns the number of source blocks of B keys. An empty source has one empty block, so that every query
/// gets a result.
MINUET_HD constexpr i64 source_blocks(i64 sources, i32 source_block) {
  return sources <= 0 ? 1 : (sources + source_block - 1) / source_block;
}

/// Backward search: finds, per offset and source block, the first query greater than the block's last key.
/// The border of the last block is the number of queries; queries past its last key are misses.
struct FindQueryBordersSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 source_block = 256;  // B
  i32 query_block = 512;   // C
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("source_block", source_block),
        visitor("query_block", query_block), visitor("threads", threads);
  }
};
struct FindQueryBordersParams {
  const void* source_keys;
  const i32* source_count;  // device
  const void* query_keys;
  const i32* query_count;     // device
  const CloudLayout* layout;  // device
  KernelGeometry geometry;
  i32* borders;  // [volume][source blocks] one past the block's last query
  i32* pieces;   // [volume][source blocks] number of query blocks of at most C queries
};

/// Forward search: one thread block per query block, with the source block staged in shared memory.
struct SearchKernelMapSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 source_block = 256;  // B
  i32 query_block = 512;   // C
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("source_block", source_block),
        visitor("query_block", query_block), visitor("threads", threads);
  }
};
struct SearchKernelMapParams {
  const void* source_keys;
  const i32* source_count;  // device
  const void* query_keys;
  const i32* query_count;     // device
  const CloudLayout* layout;  // device
  KernelGeometry geometry;
  const i32* borders;       // [volume][source blocks]
  const i32* piece_starts;  // exclusive sums of pieces, then the total
  i32* map;                 // [volume][queries] the source row, or -1; every entry is written
};

// ---- counts, compaction, metadata tables -------------------------------------------------------

/// Computes counts[k], the number of pairs of offset k, from the Hits scan of the map. One block.
struct CountPairsSpec {
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct CountPairsParams {
  const i32* positions;    // exclusive sums over [volume][queries], then the total
  const i32* query_count;  // device
  i32 volume;
  i32* counts;  // [volume]
};

/// Writes the compacted pairs, ordered by offset, then by query row.
struct CompactPairsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct CompactPairsParams {
  const i32* map;        // [volume][queries]
  const i32* positions;  // exclusive sums of the map's hits
  i64 queries;
  i32 volume;
  i32* sources;  // [pairs] source row
  i32* targets;  // [pairs] query row
};

/// Makes the metadata tables: the buffer row of each map entry. Buffer rows include the padding of the GEMM
/// groups.
struct MakeTablesSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct MakeTablesParams {
  const i32* map;        // [volume][queries]
  const i32* positions;  // exclusive sums of the map's hits
  const i32* row_base;   // [volume] first buffer row of each offset
  i64 queries;
  i64 sources;
  i32 volume;
  i32 direct_offset;  // this offset reads its rows in place and has no buffer rows; -1: none
  i32* source_table;  // [volume][sources], preset to -1: buffer row of (offset, source)
  i32* query_table;   // [volume][queries] buffer row of (offset, query), or -1; every entry is written
};

}  // namespace minuet
