// Spec (compile time) and Params (run time) of every kernel of the Map step (paper 5.1).
//
// Counts live in device memory, because they are known there long before the host reads them back:
// a kernel is launched for a capacity and works on the count it finds. Params go by value as the
// only argument; all pointers are device pointers, all rows are in engine order (ascending keys).
#pragma once

#include "kernels_templates/shared/key_layout.h"

namespace minuet {

/// Bits of the status word that Map kernels set.
constexpr u32 kStatusOutOfBounds = 1u;  // a coordinate lies outside the declared bounds
constexpr u32 kStatusNegativeBatch = 2u;
constexpr u32 kStatusDuplicate = 4u;
constexpr u32 kStatusPastCapacity = 8u;   // more coordinates, or rows of a level, than there is room for
constexpr u32 kStatusKeyTooNarrow = 16u;  // the cloud's extent needs more bits than keys have
constexpr u32 kStatusTooFar = 32u;        // a coarser level's coordinates would leave 32 bits
constexpr u32 kStatusTooManyCells = 64u;  // the cloud's extent has more cells than there is room for

// ---- a cloud's count, bounds and layout ------------------------------------------------------

/// What a cloud begins with whose bounds are to be found. One block.
struct BeginCloudSpec {
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct BeginCloudParams {
  const i32* given_count;  // device, or null: then there are `most` coordinates
  i64 most;                // more set the status, and none is taken; so does a negative count
  u32* status;             // out: one word
  i32* points;             // out: one word
  i32* bounds;             // out: [2][kMaxFields] INT_MAX, then INT_MIN
};

/// Bits of the status word that a layout and its bounds set, where keys have at most `key_bits`.
MINUET_HD constexpr u32 layout_status(const CloudLayout& cloud, i32 ndim, const i64* period, i32 key_bits) {
  u32 status = cloud.least[0] < 0 ? kStatusNegativeBatch : 0;
  for (i32 a = 0; a < ndim; ++a) {
    if (floor_to_multiple(cloud.least[a + 1], period[a]) < -0x7fffffff - 1) status |= kStatusTooFar;
  }
  return status | (cloud.keys.total_bits > key_bits ? kStatusKeyTooNarrow : 0);
}

/// Bounds -> layout; a cloud of declared ones begins with it. A layout that cannot be sets the status, and
/// the number of points to 0. One thread.
struct MakeLayoutSpec {
  i32 ndim = 3;
  i32 threads = 32;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct MakeLayoutParams {
  BeginCloudParams cloud;  // with bounds: as found, status is or-ed into; without: declared, the cloud begins
  i32 least[kMaxFields];   // declared
  i32 greatest[kMaxFields];
  i64 guard[kMaxDim];
  i64 period[kMaxDim];
  i32 key_bits;         // most bits of a key
  CloudLayout* layout;  // out
};

// ---- coordinates -> keys -------------------------------------------------------------------

/// Least and greatest coordinate per field.
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

/// Coordinates -> keys, with the caller's row number beside each key.
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
  u32* rows;                  // [count] row i of the caller, or null
  u32* status;                // one word, bits are or-ed in; null for coordinates inside the bounds
};

/// Keys -> coordinates, in engine order.
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

/// Counts of a cloud that failed -> 0. One block.
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

// ---- radix sort (least significant digit first, one sweep a digit) ---------------------------

constexpr i32 kRadixBits = 8;
constexpr i32 kRadixBins = 1 << kRadixBits;
constexpr i32 kMaxRadixPasses = 8;

/// Counts of every digit of every pass, in one read of the keys.
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

/// Exclusive sum of each pass's bins, in place. One block a pass.
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

/// One digit: stable scatter of keys (and values) with decoupled look-back.
struct RadixPassSpec {
  KeyType key = KeyType::U32;
  bool values = true;  // carry u32 values along
  i32 threads = 512;
  i32 items_per_thread = 17;
  bool raking_scan = true;  // of the digits' counts: fewer registers, for tiles with many items
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
  i32 bit;   // least bit of the digit
  i32 bits;  // width of the digit, 1 ... kRadixBits
};

// ---- scan ------------------------------------------------------------------------------------

/// What a scan adds up.
enum class ScanInput : i32 {
  Heads32,  // 1 where a u32 key differs from its predecessor
  Heads64,  // the same for u64 keys
  Hits,     // 1 where an i32 is not negative (an entry of a kernel map)
  Values,   // i32 values
  Bits,     // the ones of BitWord::bits; the sums go to BitWord::before
};

/// Bits, and the ones in the words before: who looks one up has the other with it.
struct alignas(8) BitWord {
  u32 bits;
  i32 before;
};

/// Exclusive sum in one pass with decoupled look-back.
struct ScanSpec {
  ScanInput input = ScanInput::Values;
  i32 threads = 128;
  i32 items_per_thread = 16;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("input", input), visitor("threads", threads), visitor("items_per_thread", items_per_thread);
  }
};
/// The scan runs over volume * max(least_items, ceil(*count / divisor)) items: `volume` segments of
/// one kernel map, each of one item a query (divisor 1) or a source block (divisor B).
struct ScanParams {
  const void* input;
  const i32* count;  // device
  i32 volume;
  i32 divisor;
  i32 least_items;
  void* output;  // i32, or BitWord: exclusive sums, one more than the items: the last is the total
  void* tiles;   // scan_state_bytes(capacity), made ready by prepare_scans
};

/// Items that a scan adds up, given the count found on the device.
MINUET_HD constexpr i64 scan_items(const ScanParams& p, i64 count) {
  const i64 segment = (count + p.divisor - 1) / p.divisor;
  return p.volume * (segment < p.least_items ? p.least_items : segment);
}

/// Makes the look-back state of many scans ready in one launch.
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
  return (items + tile) / tile;  // one item more than given: the total is an output too
}
/// Bytes of one scan's look-back state, a multiple of 256.
MINUET_HD constexpr i64 scan_state_bytes(const ScanSpec& spec, i64 items) {
  return ((scan_tiles(spec, items) + kScanPaddingTiles) * kScanTileBytes + 255) / 256 * 256;
}

// ---- unique, downsample ----------------------------------------------------------------------

/// Keeps the first of equal keys. positions: the Heads scan of the sorted keys; key i belongs to
/// unique row positions[i + 1] - 1.
struct UniqueSpec {
  KeyType key = KeyType::U32;
  bool rows = true;  // the caller's rows travel with the keys
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
  i64 capacity;          // of unique keys; more set the status, and none past it is written
  u32 duplicate_status;  // bits to set where a key comes twice
  u32* status;           // one word, bits are or-ed in
  i32* source_row;       // [unique] the caller's first row with that key, or null
  i32* row_of;           // [count] by the caller's row: its unique row, or null
};

/// Keys floored to a stride: the coarser set, still with duplicates and unsorted.
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

// ---- double-traversed binary search (paper 5.1.2) ----------------------------------------------

/// Source blocks of B keys; an empty source has one empty block, so that every query is answered.
MINUET_HD constexpr i64 source_blocks(i64 sources, i32 source_block) {
  return sources <= 0 ? 1 : (sources + source_block - 1) / source_block;
}

/// Backward search: per offset and source block, the first query greater than the block's last key.
/// The last block's border is the number of queries: those past its last key are misses.
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
  i32* pieces;   // [volume][source blocks] query blocks of at most C queries
};

/// Forward search: one thread block a query block, its source block staged in shared memory.
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
  const i32* piece_starts;  // exclusive sums of pieces, the total last
  i32* map;                 // [volume][queries]: the source row, or -1; every entry is written
};

// ---- counts, compaction, metadata tables -------------------------------------------------------

/// counts[k] = pairs of offset k, from the Hits scan of the map. One block.
struct CountPairsSpec {
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct CountPairsParams {
  const i32* positions;    // exclusive sums over [volume][queries], the total last
  const i32* query_count;  // device
  i32 volume;
  i32* counts;  // [volume]
};

/// Compacted pairs, ordered by offset, then by query row.
struct CompactPairsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct CompactPairsParams {
  const i32* map;        // [volume][queries]
  const i32* positions;  // exclusive sums
  i64 queries;
  i32 volume;
  i32* sources;  // [pairs] source row
  i32* targets;  // [pairs] query row
};

/// Metadata tables: the buffer row of each map entry, padding of the GEMM groups included.
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
  i32 direct_offset;  // this offset reads its rows in place: it has no buffer rows; -1 none
  i32* source_table;  // [volume][sources], preset to -1: buffer row of (offset, source)
  i32* query_table;   // [volume][queries]: buffer row of (offset, query), or -1; wholly written
};

}  // namespace minuet
