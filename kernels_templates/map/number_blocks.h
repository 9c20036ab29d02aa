// The kernel number_blocks sets first_block of each superblock to the number of blocks of the superblocks
// before it, in the order of hashes and then of coordinates. It also initialises the blocks (VoxelBlock).
// Each thread block handles kSlotTile slots of the hash table, and each of its threads handles consecutive
// slots.
//
// The slots ascend with the hash, except within a run of consecutive occupied slots, where linear probing
// may have put a superblock behind one that follows it in the order. The kernel therefore corrects the
// prefix sum over the slots by the blocks of those superblocks of the run that are on the wrong side.
// Nearly all runs have only one slot.
#pragma once

#include "kernels_templates/core/current.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/tile_sums.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/voxel_index.h"

namespace minuet {

/// Returns true if the superblock with the key `a` precedes that with the key `b` in the order of a
/// level's rows.
template <i32 Ndim>
MINUET_DEVICE bool precedes(const IndexKeys& keys, const IndexLevel& level, u64 a, u64 b) {
  i32 of_a[Ndim + 1], of_b[Ndim + 1];
  read_superblock<Ndim>(keys, level, a, of_a);
  read_superblock<Ndim>(keys, level, b, of_b);
  const u32 hash_a = hash_of<Ndim>(of_a), hash_b = hash_of<Ndim>(of_b);
  // If the hashes are equal, the keys are compared, because they ascend with the coordinates.
  return hash_a != hash_b ? hash_a < hash_b : a < b;
}

/// Returns the number to add to the prefix sum of block counts at `slot`, which holds the superblock with
/// the key `key`. The sum then counts the blocks of the superblocks that precede this one in the order of
/// rows, instead of those in the slots before it.
template <i32 Ndim>
MINUET_DEVICE i32 run_correction(const IndexKeys& keys, const IndexLevel& level, u32 slot, u64 key) {
  i32 change = 0;
  for (u32 other = slot; other-- > 0;) {
    const WordPair found = read_pair(level.table + other);
    if (found.first == 0) break;
    if (precedes<Ndim>(keys, level, key, found.first)) change -= count_bits64(found.second);
  }
  for (u32 other = slot + 1; other < level.slots; ++other) {
    const WordPair found = read_pair(level.table + other);
    if (found.first == 0) break;
    if (precedes<Ndim>(keys, level, found.first, key)) change += count_bits64(found.second);
  }
  return change;
}

/// Initialises the blocks (VoxelBlock) of each lane's superblock. All lanes of a warp share this work,
/// because superblocks differ in their numbers of blocks.
MINUET_DEVICE void start_blocks(const IndexLevel& level, u64 blocks, u32 first, u32 slot) {
  const u32 lane = threadIdx.x & 31u;
  for (u32 left = __ballot_sync(~0u, blocks != 0); left != 0; left &= left - 1) {
    const i32 source = lowest_bit(left);
    const u64 of_source = __shfl_sync(~0u, blocks, source);
    const u32 start = __shfl_sync(~0u, first, source), place = __shfl_sync(~0u, slot, source) * kBlockVoxels;
    MINUET_UNROLL
    for (u32 b = lane; b < kBlockVoxels; b += 32) {
      const u32 number = start + static_cast<u32>(count_bits64(of_source & bits_below(static_cast<i32>(b))));
      if ((of_source >> b & 1u) == 0 || number >= level.block_capacity) continue;
      store_vector<16>(level.blocks, i64{number} * 16, Vector<16>{{0, 0, 0, place + b}});
    }
  }
}

template <NumberBlocksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void number_blocks(MINUET_PARAMS(IndexParams) p) {
  follow_last_launch();
  constexpr i32 kSlots = kSlotTile / S.threads;  // Gives the number of hash-table slots per thread.
  static_assert(kSlots * S.threads == kSlotTile && 32 % kSlots == 0,
                "a thread's slots lie in one word of bits");
  if (fresh(p.status) != 0) return;
  const VoxelIndex& index = p.description;
  i32 l = p.first_level;
  while (blockIdx.x >= p.slot_tiles_end[l]) ++l;
  const i32 tile = static_cast<i32>(blockIdx.x - (l > p.first_level ? p.slot_tiles_end[l - 1] : 0));
  const IndexLevel& level = index.level[l];
  const u32 begin = static_cast<u32>(tile) * kSlotTile + threadIdx.x * kSlots;
  const u32 taken = fresh(level.taken + begin / 32) >> begin % 32 & static_cast<u32>((u64{1} << kSlots) - 1);
  u32 sum = 0;
  for (u32 left = taken; left != 0; left &= left - 1)
    sum += static_cast<u32>(count_bits64(fresh(&level.table[begin + lowest_bit(left)].blocks)));
  u32 before = sum_before<S.threads>(sum, level.slot_sums, tile);
  // If there are too many voxel blocks, only the next kernel, mark_voxels, sets the status. If this kernel
  // set it, thread blocks that start later would see it and return, and others would wait forever for their
  // sums.
  if (begin + kSlots == level.slots) p.index->blocks[l] = static_cast<i32>(before + sum);
  for (u32 left = taken; __any_sync(~0u, left != 0); left &= left - 1) {
    u32 slot = 0, first = 0;
    u64 blocks = 0;
    if (left != 0) {
      slot = begin + static_cast<u32>(lowest_bit(left));
      const WordPair own = read_pair(level.table + slot);
      blocks = own.second;
      first = before + static_cast<u32>(run_correction<S.ndim>(index.keys, level, slot, own.first));
      before += static_cast<u32>(count_bits64(blocks));
      level.table[slot].first_block = first;
    }
    start_blocks(level, blocks, first, slot);
  }
}

}  // namespace minuet
