// This file finds the rows of voxels in a finished index (voxel_index.h).
#pragma once

#include "kernels_templates/core/current.h"
#include "kernels_templates/shared/voxel_index.h"

namespace minuet {

/// Holds the content of a slot of the hash table (Superblock). If the slot is empty, `key` and `blocks`
/// are 0.
struct FoundSuperblock {
  u64 key;
  u64 blocks;
  u32 first_block;
  u32 slot;

  /// Returns the number, in IndexLevel::blocks, of the occupied block number `place` of the superblock.
  MINUET_HD u32 block(i32 place) const {
    return first_block + static_cast<u32>(count_bits64(blocks & bits_below(place)));
  }
};

/// Returns the content of a slot of the hash table if `asks` is true, and otherwise that of an empty slot.
MINUET_DEVICE FoundSuperblock read_superblock_if(bool asks, const IndexLevel& level, u32 slot) {
  const Superblock* const found = level.table + slot;
  const WordPair pair = read_pair_if(asks, found);
  return {pair.first, pair.second, load_vector_if<4, true>(asks, &found->first_block, 0).words[0], slot};
}
MINUET_DEVICE FoundSuperblock read_superblock_at(const IndexLevel& level, u32 slot) {
  return read_superblock_if(true, level, slot);
}

/// Finishes the search for the superblock with the key `key`, by linear probing. Before the call, `found`
/// must hold the content of the slot first_slot(). Afterwards it holds that of the superblock's slot, or
/// of an empty slot if the superblock is not in the table.
MINUET_DEVICE void settle(const IndexLevel& level, u64 key, FoundSuperblock& found) {
  while (found.key != key && found.key != 0) found = read_superblock_at(level, found.slot + 1);
}

/// Holds the content of a block (VoxelBlock). If the block is not occupied, `voxels` is 0.
struct FoundBlock {
  u64 voxels;
  i32 first_row;

  MINUET_HD bool has(i32 place) const { return (voxels >> place & 1u) != 0; }
  /// Returns the row of the occupied voxel number `place` of the block.
  MINUET_HD i32 row(i32 place) const { return first_row + count_bits64(voxels & bits_below(place)); }
};

/// Returns the content of block number `place` of a superblock if `asks` is true, and otherwise that of a
/// block that is not occupied. FoundBlock::first_row is valid only if `Rows` is true.
template <bool Rows>
MINUET_DEVICE FoundBlock read_block(bool asks, const IndexLevel& level, const FoundSuperblock& superblock,
                                    i32 place) {
  const bool is_there = asks && (superblock.blocks >> place & 1u) != 0;
  const VoxelBlock* const block = level.blocks + superblock.block(place);
  if constexpr (Rows) {
    const WordPair pair = read_pair_if(is_there, block);
    return {pair.first, static_cast<i32>(pair.second)};
  } else {
    const Vector<8> voxels = load_vector_if<8, true>(is_there, block, 0);
    return {voxels.words[0] | static_cast<u64>(voxels.words[1]) << 32, 0};
  }
}

}  // namespace minuet
