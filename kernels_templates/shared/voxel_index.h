// This file describes an index of the voxels that coordinate sets occupy, and declares the Spec (compile
// time) and Params (run time) of its kernels. The index finds the row of any coordinate. Its memory and
// the time to make it depend on the number of voxels, not on the extent of the cloud.
//
// An index has one level per coordinate set. A voxel of a level is a coordinate divided by the level's
// stride and rounded down. A level has the voxels of the caller's coordinates, or those that follow from the
// rows of another level (reached_cells.h). 64 voxels form a block (4 x 4 x 4 voxels with three axes), and 64
// blocks form a superblock. A hash table holds the superblocks of a level that have an occupied voxel. Each
// of them has a bitmap of its occupied blocks. These blocks are stored one after the other, each with a
// bitmap of its occupied voxels and the row of the first one.
//
// The rows of a level are ordered by the hash of the superblock, then by the coordinates of the
// superblock, then by the numbers of the block and of the voxel in it. This order depends on the set
// alone, and not on the order of the input, the size of the table or the bounds. It is cheap to compute
// because the table uses linear probing. The set of occupied slots then does not depend on the order of
// insertion, and the slots ascend with the hash except within a run of consecutive occupied slots. So only
// the superblocks of one run must be compared with each other.
#pragma once

#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

constexpr i32 kMostIndexedLevels = 16;
/// Gives the number of voxels in a block, and of blocks in a superblock.
constexpr i32 kBlockVoxels = 64;
/// Limits the number of slots, and of blocks, of one level. The number of a slot or a block, times 64,
/// plus a number from 0 to 63, must fit into a 32-bit word (RowPlace).
constexpr i64 kMostIndexSlots = i64{1} << 26;
/// Limits the number of occupied slots that an insertion passes. A table that is at most half full has no run
/// of so many occupied slots, unless as many superblocks were chosen to have nearly the same hash. Without
/// the limit, a cloud with too many superblocks would be searched for free slots for a long time.
constexpr i32 kMostProbes = 1024;
/// Gives the number of slots that one thread block of the kernel number_blocks handles. The number of
/// slots of a level is a multiple of it.
constexpr i32 kSlotTile = 4096;
/// Gives the number of blocks of voxels that one thread block of the kernel number_rows handles.
constexpr i32 kBlockTile = 256;

/// Returns the base-2 logarithm of the number of voxels that a block has on one axis. A superblock has as
/// many blocks on each axis as a block has voxels. The logarithms of all axes add up to 6.
MINUET_HD constexpr i32 block_bits(i32 ndim, i32 axis) {
  if (ndim == 4) return axis < 2 ? 2 : 1;
  return 6 / ndim;
}

/// Describes a slot of the hash table, which holds a superblock or is empty.
struct alignas(16) Superblock {
  u64 key;          // Holds the superblock's coordinates (IndexKeys), or 0 in an empty slot.
  u64 blocks;       // Bit b is set if block b (VoxelBlock) of the superblock is occupied.
  u32 first_block;  // Gives the number, in IndexLevel::blocks, of the superblock's first occupied block.
  u32 unused[3];
};
/// Describes a block of 64 voxels, at least one of which is occupied.
struct alignas(16) VoxelBlock {
  u64 voxels;     // Bit v is set if voxel v of the block is occupied.
  i32 first_row;  // Gives the row of the first occupied voxel of the block.
  u32 place;      // Holds (hash-table slot of the Superblock) * 64 + (number of the block in it).
};
/// Says where in an index the voxel of a row is.
struct alignas(8) RowPlace {
  u32 voxel;  // Holds (number of the block in IndexLevel::blocks) * 64 + (number of the voxel in the block).
  u32 block;  // Holds (hash-table slot of the Superblock) * 64 + (number of the block in it).
};

/// Describes the fields of a superblock's key, which are the batch index in the highest bits, and then one
/// field per axis. The field of an axis is the superblock's coordinate minus IndexLevel::least. In the
/// table it is at least 1, so that no key is 0, which marks an empty slot.
struct IndexKeys {
  i32 shift[kMaxFields];
  i32 bits[kMaxFields];
};

/// Returns true if `field` can be the field of an axis in a superblock's key (IndexKeys), where it is at
/// least 1.
MINUET_HD constexpr bool is_field(const IndexKeys& keys, i32 axis, i32 field) {
  return field > 0 && static_cast<u64>(static_cast<u32>(field)) >> keys.bits[axis + 1] == 0;
}

/// Describes one level of an index, which holds one coordinate set. Slots, blocks and rows are numbered
/// from 0 in each level.
struct IndexLevel {
  i32 stride[kMaxDim];  // Gives the extent of a voxel on each axis, in cells of the finest grid.
  i32 shift[kMaxDim];   // Gives the base-2 logarithm of the stride, or -1 if it is not a power of two.
  i32 least[kMaxDim];   // Gives the superblock coordinate whose key field (IndexKeys) would be 0.
  /// The next two arrays give bounds of the level's coordinates on each axis, in cells of the finest grid.
  i32 lowest[kMaxDim], highest[kMaxDim];
  /// Equals 1 if, in this level and in every later one, the blocks and voxels are unions of those of the
  /// level before it.
  i32 rest_is_nested;
  u32 hash_slots;  // Gives the number of slots over which first_slot() spreads hashes.
  u32 slots;       // Gives the number of slots of `table`. The last one stays empty, so that searches end.
  u32 capacity;    // Limits the number of rows of the level.
  u32 block_capacity;  // Limits the number of occupied blocks. It is at most kMostIndexSlots.
  Superblock* table;   // Holds the hash table, which has `slots` slots.
  u32* taken;          // Bit s % 32 of word s / 32 is set if slot s of `table` is occupied.
  VoxelBlock* blocks;  // Holds the occupied blocks, at most block_capacity.
  RowPlace* rows;      // Says for each row where its voxel is. It has `capacity` elements.
  /// Holds slots / kSlotTile look-back states (core/tile_sums.h) of the kernel number_blocks.
  u32* slot_sums;
  /// Holds row_tiles() look-back states of the kernel number_rows.
  u32* block_sums;
};

/// Describes an index of coordinate sets. The kernel clear_index writes it to device memory.
struct VoxelIndex {
  IndexKeys keys;
  /// The next two arrays hold the least and the greatest coordinate of each field from which the index may be
  /// made.
  i32 least[kMaxFields];
  i32 greatest[kMaxFields];
  i32 levels;
  /// The next two arrays hold the numbers of blocks and rows of each level. If a number exceeds the
  /// capacity, the blocks or rows past it are not stored.
  i32 blocks[kMostIndexedLevels];
  i32 rows[kMostIndexedLevels];
  /// In device memory, this array ends with the last level in use (index_header_bytes()).
  IndexLevel level[kMostIndexedLevels];
};
/// Returns the bytes of a VoxelIndex that are in use if it has this many levels.
MINUET_HD constexpr i64 index_header_bytes(i64 levels) {
  return static_cast<i64>(sizeof(VoxelIndex) - sizeof(IndexLevel) * kMostIndexedLevels) +
         levels * static_cast<i64>(sizeof(IndexLevel));
}

/// Returns the coordinate of a voxel on one axis, which is floor(coordinate / stride). `shift` is that of
/// IndexLevel.
MINUET_HD constexpr i32 voxel_of(i32 coordinate, i32 stride, i32 shift) {
  if (shift >= 0) return coordinate >> shift;
  const i32 quotient = coordinate / stride;
  return quotient - (coordinate - quotient * stride < 0 ? 1 : 0);
}

/// Identifies a voxel of a level by its batch index and then its coordinate on each axis.
struct Voxel {
  i32 at[kMaxFields];
};
template <i32 Ndim>
MINUET_HD constexpr Voxel voxel_of(const IndexLevel& level, const i32* coordinate) {
  Voxel voxel{};
  voxel.at[0] = coordinate[0];
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a)
    voxel.at[a + 1] = voxel_of(coordinate[a + 1], level.stride[a], level.shift[a]);
  return voxel;
}

/// Returns the number of the voxel's block (VoxelBlock) in its superblock (Superblock), from 0 to 63.
template <i32 Ndim>
MINUET_HD constexpr i32 block_in_superblock(const Voxel& voxel) {
  i32 block = 0;
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    const i32 bits = block_bits(Ndim, a);
    block = block << bits | ((voxel.at[a + 1] >> bits) & ((1 << bits) - 1));
  }
  return block;
}
/// Returns the number of the voxel in its block (VoxelBlock), from 0 to 63.
template <i32 Ndim>
MINUET_HD constexpr i32 voxel_in_block(const Voxel& voxel) {
  i32 place = 0;
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    const i32 bits = block_bits(Ndim, a);
    place = place << bits | (voxel.at[a + 1] & ((1 << bits) - 1));
  }
  return place;
}
/// Returns the coordinate of the voxel's superblock (Superblock) on an axis.
template <i32 Ndim>
MINUET_HD constexpr i32 superblock_of(const Voxel& voxel, i32 axis) {
  return voxel.at[axis + 1] >> (2 * block_bits(Ndim, axis));
}

/// Returns the part of a superblock's hash that one coordinate contributes. The parts are combined with
/// exclusive or. Without the addends, the parts of x and -x would differ in the same bits for every odd x.
/// Changing the signs of two odd coordinates would then not change the hash.
MINUET_HD constexpr u32 hash_part(i32 coordinate, i32 field) {
  constexpr u32 kFactors[kMaxFields] = {0x9e3779b1u, 0x85ebca6bu, 0xc2b2ae35u, 0x27d4eb2fu, 0x165667b1u};
  constexpr u32 kAddends[kMaxFields] = {0u, 0x3c6ef372u, 0x1b873593u, 0x2545f491u, 0x38495ab5u};
  return (static_cast<u32>(coordinate) + kAddends[field]) * kFactors[field];
}
MINUET_HD constexpr u32 finish_hash(u32 hash) {
  hash ^= hash >> 15;
  hash *= 0xd168aaadu;
  hash ^= hash >> 15;
  hash *= 0xaf723597u;
  return hash ^ hash >> 15;
}
/// Returns the hash of a superblock (Superblock), given its batch index and then its coordinate on each
/// axis.
template <i32 Ndim>
MINUET_HD constexpr u32 hash_of(const i32* superblock) {
  u32 hash = 0;
  MINUET_UNROLL
  for (i32 f = 0; f <= Ndim; ++f) hash ^= hash_part(superblock[f], f);
  return finish_hash(hash);
}

/// Identifies a superblock (Superblock) that is to be looked up in a hash table or inserted into it.
struct SuperblockName {
  u64 key;
  u32 hash;
};
/// Returns the key and the hash of a voxel's superblock. The coordinates of the superblock must fit into
/// the fields of the keys.
template <i32 Ndim>
MINUET_HD constexpr SuperblockName superblock_name(const IndexKeys& keys, const IndexLevel& level,
                                                   const Voxel& voxel) {
  i32 superblock[Ndim + 1] = {voxel.at[0]};
  u64 key = static_cast<u64>(voxel.at[0]) << keys.shift[0];
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    superblock[a + 1] = superblock_of<Ndim>(voxel, a);
    key |= static_cast<u64>(superblock[a + 1] - level.least[a]) << keys.shift[a + 1];
  }
  return {key, hash_of<Ndim>(superblock)};
}

/// Computes the coordinates of a superblock (Superblock), batch first, from its key.
template <i32 Ndim>
MINUET_HD constexpr void read_superblock(const IndexKeys& keys, const IndexLevel& level, u64 key,
                                         i32* superblock) {
  superblock[0] = static_cast<i32>(key >> keys.shift[0] & ((u64{1} << keys.bits[0]) - 1));
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    const u64 field = key >> keys.shift[a + 1] & ((u64{1} << keys.bits[a + 1]) - 1);
    superblock[a + 1] = static_cast<i32>(field) + level.least[a];
  }
}

/// Returns a voxel, given the key of its superblock (Superblock), the number of its block in the
/// superblock, and its own number in the block.
template <i32 Ndim>
MINUET_HD constexpr Voxel voxel_at(const IndexKeys& keys, const IndexLevel& level, u64 key, i32 block,
                                   i32 voxel) {
  i32 superblock[Ndim + 1] = {};
  read_superblock<Ndim>(keys, level, key, superblock);
  Voxel result{};
  result.at[0] = superblock[0];
  MINUET_UNROLL
  for (i32 a = Ndim - 1; a >= 0; --a) {
    const i32 bits = block_bits(Ndim, a), mask = (1 << bits) - 1;
    result.at[a + 1] = (superblock[a + 1] << (2 * bits)) + ((block & mask) << bits) + (voxel & mask);
    block >>= bits;
    voxel >>= bits;
  }
  return result;
}

/// Returns the slot of the hash table at which the search for a superblock with this hash begins.
MINUET_HD constexpr u32 first_slot(const IndexLevel& level, u32 hash) {
  return static_cast<u32>(static_cast<u64>(hash) * level.hash_slots >> 32);
}

/// Returns a word in which exactly the bits below bit `bit` are set.
MINUET_HD constexpr u64 bits_below(i32 bit) { return (u64{1} << bit) - 1; }

/// The kernel clear_index prepares an index for a new cloud.
struct ClearIndexSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct ClearIndexParams {
  VoxelIndex index;   // Describes the index of the new cloud.
  VoxelIndex* to;     // Receives a copy of `index`, with 0 blocks and rows in each level.
  Superblock* table;  // Holds the hash-table slots of all levels.
  u32* taken;         // Holds the words IndexLevel::taken of all levels.
  i64 taken_words;
  u32* sums;  // Points to the look-back states of all levels, `sum_words` words, which become 0.
  i64 sum_words;
  /// Points to IndexParams::source_row, `most_rows` words, which become INT_MAX, because number_points
  /// takes minima. It may be null.
  i32* source_row;
  i64 most_rows;
  i32* zeros;  // Points to `zero_words` words, which become 0.
  i64 zero_words;
  BeginCloudParams cloud;  // Describes the cloud, whose bounds are not used.
};

/// Holds the parameters of the kernels that make an index after clear_index. The levels of the caller's
/// coordinates are made together, by the kernels mark_blocks, number_blocks, mark_voxels, number_rows and
/// number_points. After that, each level that is made of other levels' rows is made by reach_blocks,
/// number_blocks, reach_voxels and number_rows. For a union, reach_blocks and reach_voxels run once per
/// parent.
struct IndexParams {
  const i32* coordinates;  // Holds coordinates, batch first, in the shape [points, 1 + ndim].
  const i32* points;       // Points to the number of coordinates.
  VoxelIndex* index;       // Receives the numbers of blocks and rows.
  /// Repeats *index except the numbers of blocks and rows, because kernels read parameters faster than device
  /// memory.
  VoxelIndex description;
  i32 first_level, end_level;  // The kernels make the levels from first_level to end_level - 1.
  LevelSource source;          // Describes the voxels that reach_blocks or reach_voxels adds to first_level.
  /// The next two arrays give the numbers of thread blocks of the kernels number_blocks and number_rows
  /// that handle each level and all levels from first_level on before it.
  u32 slot_tiles_end[kMostIndexedLevels], block_tiles_end[kMostIndexedLevels];
  /// The kernels OR their status bits into this word. If a bit is set, the kernels after mark_blocks do
  /// nothing.
  u32* status;
  u32 outside_status;  // Gives the status bits for a coordinate outside the bounds of the index.
  /// Gives the status bits that number_rows sets if a level has more rows than its capacity. It is 0 if the
  /// launch makes several levels, because thread blocks of another level would then see the status at
  /// different times, and some would wait forever for the sums of others. number_points sets it instead.
  u32 rows_status;
  u32 duplicate_status;  // Gives the status bits for a coordinate that occurs twice.
  /// Points to `voided_words` words that number_points sets to 0 if the status has a bit set. It may be null.
  i32* voided;
  i32 voided_words;
  /// Receives, for each row of level 0, the first of the caller's rows with this coordinate, unless the
  /// pointer is null.
  i32* source_row;
  /// Receives the row in level 0 of each of the caller's coordinates. Until then the kernels keep the
  /// place of the coordinate's voxel here.
  i32* row_of;
  /// Each element points to the word that receives the number of rows of a level, at most its capacity.
  i32* counts[kMostIndexedLevels];
};

/// The kernel mark_blocks inserts the superblocks (Superblock) of all coordinates into the hash tables,
/// and marks the occupied blocks in them.
struct MarkBlocksSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
/// The kernel number_blocks numbers the occupied blocks (VoxelBlock) of all levels. It runs as one thread
/// block per kSlotTile slots of the hash tables. Thread blocks wait for those before them, so they must
/// start in ascending order.
struct NumberBlocksSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
/// The kernel mark_voxels marks the voxels of all coordinates in their blocks (VoxelBlock).
struct MarkVoxelsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
/// The kernel reach_blocks does the work of mark_blocks for one level and the rows of one of its parents.
struct ReachBlocksSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
/// The kernel reach_voxels does the work of mark_voxels for one level and the rows of one of its parents.
struct ReachVoxelsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
/// Returns the number of thread blocks that the kernel number_rows needs for one level.
MINUET_HD constexpr i32 row_tiles(const IndexLevel& level) {
  return static_cast<i32>((level.block_capacity + kBlockTile - 1) / kBlockTile);
}
/// The kernel number_rows numbers the rows of all levels. It runs as one thread block per kBlockTile
/// blocks of voxels. Thread blocks wait for those before them, so they must start in ascending order.
struct NumberRowsSpec {
  i32 threads = kBlockTile;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
/// The kernel number_points finds the row of each of the caller's coordinates, and the first coordinate of
/// each row.
struct NumberPointsSpec {
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// The kernel list_voxels computes the coordinates of the rows of one level.
struct ListVoxelsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct ListVoxelsParams {
  const VoxelIndex* index;
  i32 level;
  const i32* count;  // Points to the number of rows.
  i32* coordinates;  // Receives coordinates, batch first, in the shape [count, 1 + ndim].
};

/// Names the coordinate set on one side of a kernel map, which is a level of an index.
struct IndexSide {
  const VoxelIndex* index;
  i32 level;
};
/// Gives the number of threads of search_voxels that a multiprocessor is to run at a time. The loads of a
/// look-up depend on each other, so many threads are needed to hide their latency.
constexpr i32 kSearchThreads = 1024;
/// The kernel search_voxels computes kernel maps from indexes. It makes the masks of the queries, and
/// optionally the counts and the rows of the map.
struct SearchVoxelsSpec {
  i32 ndim = 3;
  bool rows = false;  // True means that the kernel writes the rows of all maps of the launch.
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("rows", rows), visitor("threads", threads);
  }
};
/// Describes one kernel map that search_voxels makes.
struct VoxelSearch {
  IndexSide queries, sources;
  const i32* query_count;  // Points to the number of queries.
  KernelGeometry geometry;
  /// Has the shape [volume][queries]. If SearchVoxelsSpec::rows is set, every entry becomes the source row
  /// or -1.
  i32* rows;
  /// Has the shape [mask_words(volume)][queries]. Bit k % 32 of word k / 32 becomes 1 if the query has a
  /// source at offset k, and 0 otherwise.
  u32* masks;
  /// Has `volume` elements. The kernel adds the number of pairs of each offset to them, unless the pointer
  /// is null.
  u32* counts;
  /// If these are not null, the sources of a query are the finer voxels in its voxel, at most one at each
  /// kernel offset (RowSource::Children). children[q] receives the number, in IndexLevel::blocks, of the
  /// block that contains all sources of query q. parents[s] receives the query whose voxel contains source
  /// s.
  i32* children;
  i32* parents;
};
constexpr i32 kMostVoxelSearches = 24;  // Limits the number of maps per launch.
struct SearchVoxelsParams {
  VoxelSearch searches[kMostVoxelSearches];
  i32 search_count;
};

}  // namespace minuet
