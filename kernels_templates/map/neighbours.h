// This file finds the neighbours of a voxel, which are the rows of an index (voxel_index.h) at the offsets
// of a kernel.
//
// If the offsets lead to adjacent voxels that lie in at most two blocks per axis, all these blocks are
// looked up together (Window). Every line of offsets along the last axis is then cut out of the bitmaps of
// one or two blocks. Otherwise each offset is looked up by itself (Neighbours::at_offset()).
#pragma once

#include "kernels_templates/core/async_copy.h"
#include "kernels_templates/map/neighbour_search.h"

namespace minuet {

/// Describes the occupied voxels of a line of kernel offsets, which lie in one or two blocks (VoxelBlock).
struct LineVoxels {
  u32 bits;       // Bit i is set if there is a row at offset i of the line of kernel offsets.
  i32 row;        // Gives the next row that take() finds in the first block (VoxelBlock).
  i32 later_row;  // Gives the next row that take() finds in the second block (VoxelBlock).
  i32 in_first;   // Gives how many of the offsets of the line are in the first block (VoxelBlock).

  /// Returns the row at offset `i`, or -1. The caller must call this function for each i from 0 on, in
  /// ascending order, because it advances to the next row.
  MINUET_HD i32 take(i32 i) {
    if ((bits >> i & 1u) == 0) return -1;
    return i < in_first ? row++ : later_row++;
  }
};

/// Lists the offsets of a kernel with `Size` offsets per axis. Bit k of at[a][i] is set if offset k has
/// the index i on axis a.
template <i32 Ndim, i32 Size>
struct CubeOffsets {
  u32 at[Ndim][Size];

  MINUET_HD static constexpr CubeOffsets make() {
    CubeOffsets offsets{};
    i32 volume = 1;
    for (i32 a = 0; a < Ndim; ++a) volume *= Size;
    for (i32 k = 0; k < volume; ++k) {
      i32 rest = k;
      for (i32 a = Ndim - 1; a >= 0; --a, rest /= Size) offsets.at[a][rest % Size] |= 1u << k;
    }
    return offsets;
  }
};

/// Joins the voxels of two blocks of four voxels on each of three axes. The second block lies behind the
/// first one on one axis, on which the result begins at voxel `place` of the first block. `Group` is 4, 16 or
/// 64, the number of voxels of a block that differ only on this axis and those behind it.
template <i32 Group>
MINUET_HD constexpr u64 join_blocks(u64 first, u64 second, i32 place) {
  // Counts the voxels of a group that are in the first block.
  const i32 left = Group - place * (Group / 4);
  u64 of_first = ~u64{0} >> (64 - left);
  if constexpr (Group < 64) of_first *= ~u64{0} / ((u64{1} << Group) - 1);  // Repeats it in each group.
  return (first >> (Group - left) & of_first) | (second << (left - 1) << 1 & ~of_first);
}
/// Returns the mask of a window (Window) of three voxels on each of three axes: bit k is set if the voxel at
/// offset k is occupied. blocks[j] has the voxels of the block at corner j, and `place` is the position of
/// the window's first voxel in its block. All lines are joined at once, one axis after the other.
MINUET_HD constexpr u32 cube_mask(const u64 (&blocks)[8], const i32 (&place)[3]) {
  u64 lines[4] = {};
  MINUET_UNROLL
  for (i32 j = 0; j < 4; ++j) lines[j] = join_blocks<4>(blocks[j], blocks[j + 4], place[2]);
  const u64 first = join_blocks<16>(lines[0], lines[2], place[1]),
            second = join_blocks<16>(lines[1], lines[3], place[1]);
  const u64 cube = join_blocks<64>(first, second, place[0]);
  u32 bits = 0;
  MINUET_UNROLL
  for (i32 i = 0; i < 3; ++i) {
    // A plane has four lines of four voxels. The window has the first three voxels of the first three lines.
    const u32 plane = static_cast<u32>(cube >> 16 * i);
    bits |= ((plane & 7u) | (plane >> 1 & 0x38u) | (plane >> 2 & 0x1c0u)) << 9 * i;
  }
  return bits;
}

/// Holds the blocks of voxels in which the windows (Window) of a thread block's queries lie. They are in
/// shared memory, because registers for them would halve the number of threads that a multiprocessor runs
/// at a time.
template <i32 Ndim, i32 Threads>
struct WindowBlocks {
  /// Limits the number of blocks of a window (Window), which has at most three axes.
  static constexpr i32 kCorners = Ndim < 4 ? 1 << Ndim : 1;
  VoxelBlock at[kCorners][Threads];
};

/// Finds the blocks (VoxelBlock) in which the window of one query lies. The window is the box of adjacent
/// voxels to which the kernel's offsets lead. It lies in at most two blocks on each axis, whose
/// combinations are called corners. Corner j is the second block on axis a if bit a of j is set, and the
/// first one otherwise. The window has `Size` offsets on each axis, or NeighbourSearch::kernel_size if
/// `Size` is 0. If `Rows` is true, line() also finds the rows.
template <i32 Ndim, i32 Size, bool Rows, i32 Threads>
class Window {
  static constexpr i32 kCorners = 1 << Ndim;

 public:
  using Blocks = WindowBlocks<Ndim, Threads>;

  /// Looks up the blocks of the window whose first voxel is `first`. `own` is the superblock of `query` if
  /// queries and sources are the same level of one index. Otherwise the key of `own` is 0. If `Size` is not
  /// 0, bit k of `known` says whether the voxel at offset k is needed.
  MINUET_DEVICE Window(const NeighbourSearch<Ndim>& search, const Voxel& first, const Voxel& query,
                       const FoundSuperblock& own, u32 known, Blocks& blocks)
      : blocks_(blocks) {
    const IndexLevel& level = search.sources;
    i32 begin[Ndim];  // Holds the coordinates of the first block of the window (Window).
    u32 crosses = 0;  // Bit a is set if the window's two blocks on axis a are in different superblocks.
    bool is_inside = first.at[0] >= search.least_batch && first.at[0] <= search.greatest_batch;
    asked_ = is_inside ? 1 : 0;
    MINUET_UNROLL
    for (i32 a = 0; a < Ndim; ++a) {
      const i32 bits = block_bits(Ndim, a);
      begin[a] = first.at[a + 1] >> bits;
      place_[a] = first.at[a + 1] & ((1 << bits) - 1);
      const i32 end = (first.at[a + 1] + size(search, a) - 1) >> bits;
      if (begin[a] != end) asked_ |= asked_ << (1 << a);
      if (begin[a] >> bits != end >> bits) crosses |= 1u << a;
    }
    if constexpr (Size > 0) asked_ &= corners_of(known);
    find_superblocks(search, begin, crosses, query, own);
    // The next array holds, for each axis, what its first and its second block add to the number of a block
    // in its superblock (block_in_superblock()).
    i32 places[Ndim][2], weight = 0;
    MINUET_UNROLL
    for (i32 a = Ndim - 1; a >= 0; --a) {
      const i32 bits = block_bits(Ndim, a), mask = (1 << bits) - 1;
      places[a][0] = (begin[a] & mask) << weight;
      places[a][1] = ((begin[a] + 1) & mask) << weight;
      weight += bits;
    }
    // The blocks replace the superblocks that find_superblocks() has stored in the same memory. The block
    // of a corner (Window) needs the superblock at the same or a lower corner, so the loop goes downwards.
    // No block then overwrites a superblock that is still needed.
    const auto copy_block = [&](u32 corner) {
      i32 place = 0;
      MINUET_UNROLL
      for (i32 a = 0; a < Ndim; ++a) place |= (corner >> a & 1u) != 0 ? places[a][1] : places[a][0];
      const FoundSuperblock superblock = superblock_at(corner & crosses);
      const bool is_there = (superblock.blocks >> place & 1u) != 0;
      async_copy_if<16>(is_there, &blocks_.at[corner][threadIdx.x],
                        level.blocks + (is_there ? superblock.block(place) : 0u));
    };
    if constexpr (Rows) {
      // The masks are known, so that few corners are asked for. A loop over these is shorter than one over
      // all corners.
      for (u32 left = asked_; left != 0;) {
        const u32 corner = static_cast<u32>(highest_bit(left));
        left ^= 1u << corner;
        copy_block(corner);
      }
    } else {
      MINUET_UNROLL
      for (i32 corner = kCorners - 1; corner >= 0; --corner) {
        if ((asked_ >> corner & 1u) != 0) copy_block(static_cast<u32>(corner));
      }
    }
    async_copy_commit();
    async_copy_wait<0>();
  }

  /// Returns the mask of a window of three voxels on each of three axes (cube_mask()).
  MINUET_DEVICE u32 mask() const {
    static_assert(Ndim == 3 && Size == 3 && block_bits(3, 0) == 2 && block_bits(3, 1) == 2);
    u64 voxels[kCorners];
    MINUET_UNROLL
    for (u32 j = 0; j < kCorners; ++j) voxels[j] = block_at(j).voxels;
    return cube_mask(voxels, place_);
  }

  /// Returns line `line` of the window, which consists of offsets that differ on the last axis only.
  MINUET_DEVICE LineVoxels line(const NeighbourSearch<Ndim>& search, i32 line) const {
    constexpr i32 kLast = Ndim - 1, kBits = block_bits(Ndim, kLast), kExtent = 1 << kBits;
    // On each axis except the last, the line lies in the window's second block if it is past the end of
    // the first.
    i32 begin = 0, rest = line, weight = kBits;
    u32 corner = 0;
    MINUET_UNROLL
    for (i32 a = kLast - 1; a >= 0; --a) {
      const i32 bits = block_bits(Ndim, a), at = place_[a] + rest % size(search, a);
      rest /= size(search, a);
      corner |= static_cast<u32>(at >> bits) << a;
      begin |= (at & ((1 << bits) - 1)) << weight;
      weight += bits;
    }
    const FoundBlock block = block_at(corner), second = block_at(corner | 1u << kLast);
    const i32 length = size(search, kLast), first = begin + place_[kLast];
    LineVoxels result{};
    result.in_first = kExtent - place_[kLast] < length ? kExtent - place_[kLast] : length;
    result.bits = static_cast<u32>(block.voxels >> first) & ((1u << result.in_first) - 1);
    const u32 in_second = static_cast<u32>(second.voxels >> begin) & ((1u << (length - result.in_first)) - 1);
    result.bits |= in_second << result.in_first;
    if constexpr (Rows) {
      result.row = block.row(first);
      result.later_row = second.row(begin);
    }
    return result;
  }

 private:
  MINUET_DEVICE static i32 size(const NeighbourSearch<Ndim>& search, i32 axis) {
    return Size > 0 ? Size : search.kernel_size[axis];
  }

  /// Returns a word whose bit j is set if corner j (a block in which the window lies) contains a voxel at
  /// one of the offsets whose bits are set in `known`.
  MINUET_DEVICE u32 corners_of(u32 known) const {
    constexpr CubeOffsets<Ndim, Size> kOffsets = CubeOffsets<Ndim, Size>::make();
    u32 second[Ndim];  // Bit k of second[a] is set if offset k is in the second block on axis a.
    MINUET_UNROLL
    for (i32 a = 0; a < Ndim; ++a) {
      second[a] = 0;
      MINUET_UNROLL
      for (i32 i = 1; i < Size; ++i)
        second[a] |= place_[a] + i >= 1 << block_bits(Ndim, a) ? kOffsets.at[a][i] : 0u;
    }
    u32 corners = 0;
    MINUET_UNROLL
    for (i32 j = 0; j < kCorners; ++j) {
      u32 wanted = known;
      MINUET_UNROLL
      for (i32 a = 0; a < Ndim; ++a) wanted &= (j >> a & 1) != 0 ? second[a] : ~second[a];
      corners |= wanted != 0 ? 1u << j : 0u;
    }
    return corners;
  }

  /// Looks up the superblocks of the corners (blocks in which the window lies) that have a bit in asked_.
  /// The superblock of corner j is stored at corner j & crosses, because it is the same for corners that
  /// differ only on axes whose two blocks are in one superblock.
  MINUET_DEVICE void find_superblocks(const NeighbourSearch<Ndim>& search, const i32 (&begin)[Ndim],
                                      u32 crosses, const Voxel& query, const FoundSuperblock& own) {
    constexpr u32 kAxes = (1u << Ndim) - 1;
    const IndexLevel& level = search.sources;
    u32 left = asked_;
    // Bit a of outside[i] is set if superblock i of the two on axis a is outside of the index. Bit a of
    // is_own[i] is set if it is the query's.
    u32 outside[2] = {}, is_own[2] = {};
    u32 hash_parts[Ndim][2];  // Holds what these superblocks contribute to a hash (hash_part()).
    Voxel first{};
    first.at[0] = query.at[0];
    MINUET_UNROLL
    for (i32 a = 0; a < Ndim; ++a) {
      constexpr u32 kFirstOnAxis[] = {0x55, 0x33, 0x0f};
      if ((crosses >> a & 1u) == 0) left = (left | left >> (1 << a)) & kFirstOnAxis[a];
      const i32 bits = block_bits(Ndim, a);
      first.at[a + 1] = begin[a] << bits;
      MINUET_UNROLL
      for (i32 i = 0; i < 2; ++i) {
        const i32 superblock = superblock_of<Ndim>(first, a) + i;
        if (!is_field(search.keys, a, superblock - level.least[a])) outside[i] |= 1u << a;
        if (superblock == superblock_of<Ndim>(query, a)) is_own[i] |= 1u << a;
        hash_parts[a][i] = hash_part(superblock, a + 1);
      }
    }
    // If the query's own superblock is at a corner, it needs no search. It is stored even if no block of it
    // is asked for, which does no harm.
    is_own[1] &= crosses;
    if (own.key != 0 && (is_own[0] | is_own[1]) == kAxes) {
      store(is_own[1], own);
      left &= ~(1u << is_own[1]);
    }
    if (left == 0) return;
    // The key of a corner is that of the first corner plus 1 in some fields. This is right if the corner is
    // inside the index, because its fields are then in their range, and so are those of the first corner, or
    // 0.
    const u64 first_key = superblock_name<Ndim>(search.keys, level, first).key;
    for (; left != 0; left &= left - 1) {
      const u32 corner = static_cast<u32>(lowest_bit(left));
      FoundSuperblock found{};
      if (((corner & outside[1]) | (~corner & outside[0])) == 0) {
        u64 key = first_key;
        u32 hash = hash_part(query.at[0], 0);
        MINUET_UNROLL
        for (i32 a = 0; a < Ndim; ++a) {
          const u32 i = corner >> a & 1u;
          key += u64{i} << search.keys.shift[a + 1];
          hash ^= i != 0 ? hash_parts[a][1] : hash_parts[a][0];
        }
        found = read_superblock_at(level, first_slot(level, finish_hash(hash)));
        settle(level, key, found);
      }
      store(corner, found);
    }
  }

  MINUET_DEVICE void store(u32 corner, const FoundSuperblock& superblock) {
    VoxelBlock& to = blocks_.at[corner][threadIdx.x];
    to.voxels = superblock.blocks;
    to.first_row = static_cast<i32>(superblock.first_block);
  }
  MINUET_DEVICE FoundSuperblock superblock_at(u32 corner) const {
    const VoxelBlock& from = blocks_.at[corner][threadIdx.x];
    return {0, from.voxels, static_cast<u32>(from.first_row), 0};
  }
  MINUET_DEVICE FoundBlock block_at(u32 corner) const {
    const VoxelBlock& from = blocks_.at[corner][threadIdx.x];
    if ((asked_ >> corner & 1u) == 0) return {};
    return {from.voxels, Rows ? from.first_row : 0};
  }

  Blocks& blocks_;
  u32 asked_;        // Bit j is set if the block at corner j of the window (Window) is to be looked up.
  i32 place_[Ndim];  // Holds the position of the first voxel of the window (Window) in its block.
};

/// Looks up single voxels. It keeps the last superblock (Superblock) and block (VoxelBlock), because the
/// next voxel is often in them.
template <i32 Ndim>
class VoxelFinder {
 public:
  MINUET_DEVICE explicit VoxelFinder(const NeighbourSearch<Ndim>& search) : search_(search) {}

  /// Returns the row of a coordinate, batch first, or -1 if it has none. The fields of the coordinate may
  /// be outside the range of 32-bit integers, in which case it has no row.
  MINUET_DEVICE i32 find(const i64* coordinate) {
    const IndexLevel& level = search_.sources;
    i32 narrow[Ndim + 1];
    bool is_there = coordinate[0] >= search_.least_batch && coordinate[0] <= search_.greatest_batch;
    MINUET_UNROLL
    for (i32 f = 0; f <= Ndim; ++f) {
      narrow[f] = static_cast<i32>(coordinate[f]);
      is_there = is_there && narrow[f] == coordinate[f];
    }
    const Voxel voxel = voxel_of<Ndim>(level, narrow);
    MINUET_UNROLL
    for (i32 a = 0; a < Ndim; ++a) {
      // A coordinate that is not a multiple of the stride is not in the level.
      is_there = is_there && i64{voxel.at[a + 1]} * level.stride[a] == coordinate[a + 1] &&
                 is_field(search_.keys, a, superblock_of<Ndim>(voxel, a) - level.least[a]);
    }
    return is_there ? row_of(voxel) : -1;
  }
  /// Returns the row of a voxel, or -1 if it is not occupied. The coordinates of the voxel's superblock
  /// must fit into a key (is_field()).
  MINUET_DEVICE i32 row_of(const Voxel& voxel) {
    const IndexLevel& level = search_.sources;
    const SuperblockName name = superblock_name<Ndim>(search_.keys, level, voxel);
    const i32 place = block_in_superblock<Ndim>(voxel), in_block = voxel_in_block<Ndim>(voxel);
    if (name.key != key_) {
      superblock_ = read_superblock_at(level, first_slot(level, name.hash));
      settle(level, name.key, superblock_);
      key_ = name.key;
      place_ = -1;
    }
    if (place != place_) block_ = read_block<true>(true, level, superblock_, place);
    place_ = place;
    return block_.has(in_block) ? block_.row(in_block) : -1;
  }

 private:
  const NeighbourSearch<Ndim>& search_;
  u64 key_ = 0;
  FoundSuperblock superblock_{};
  i32 place_ = -1;
  FoundBlock block_{};
};

/// Finds the neighbours of one query.
template <i32 Ndim>
class Neighbours {
 public:
  MINUET_DEVICE Neighbours(const NeighbourSearch<Ndim>& search, i64 query)
      : search_(search), row_(voxel_of_row<Ndim>(search.query_keys, search.queries, query)) {
    if (search.same_level == 0) row_.superblock.key = 0;
  }
  /// Looks up the blocks of the query's window. Call it only if NeighbourSearch::is_window is 1.
  template <i32 Size, bool Rows, i32 Threads>
  MINUET_DEVICE Window<Ndim, Size, Rows, Threads> window(u32 known,
                                                         WindowBlocks<Ndim, Threads>& blocks) const {
    Voxel first = row_.voxel;
    MINUET_UNROLL
    for (i32 a = 0; a < Ndim; ++a)
      first.at[a + 1] = row_.voxel.at[a + 1] * search_.scale[a] + search_.first[a];
    return Window<Ndim, Size, Rows, Threads>(search_, first, row_.voxel, row_.superblock, known, blocks);
  }
  /// Returns the row at offset k, or -1. A search is faster if `finder` has looked up other offsets of the
  /// query before.
  MINUET_DEVICE i32 at_offset(VoxelFinder<Ndim>& finder, i32 k) const {
    i64 coordinate[Ndim + 1] = {row_.voxel.at[0]};
    MINUET_UNROLL
    for (i32 a = Ndim - 1; a >= 0; --a) {
      const i32 size = search_.kernel_size[a];
      coordinate[a + 1] = i64{row_.voxel.at[a + 1]} * search_.queries.stride[a] + search_.origin[a] +
                          i64{k % size} * search_.step[a];
      k /= size;
    }
    return finder.find(coordinate);
  }

 private:
  const NeighbourSearch<Ndim>& search_;
  RowVoxel<Ndim> row_;
};

}  // namespace minuet
