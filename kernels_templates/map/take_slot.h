// This file inserts superblocks (Superblock) into the hash tables of an index (voxel_index.h), and says
// whether the blocks of a level have memory.
#pragma once

#include "kernels_templates/core/current.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/voxel_index.h"

namespace minuet {

/// Finds the superblock in the hash table, or inserts it, and returns its slot. Returns -1 if kMostProbes
/// slots hold other superblocks, if the table ends, or if another thread has set the status. `found` must
/// hold the key and the block bits of the slot first_slot(). It receives those of the returned slot, but may
/// lack blocks that other threads are marking.
MINUET_DEVICE i32 take_slot(const IndexLevel& level, const SuperblockName& name, const u32* status,
                            WordPair& found) {
  constexpr u32 kProbesPerCheck = 64;
  const u32 first = first_slot(level, name.hash);
  u32 slot = first;
  while (found.first != name.key) {
    if (found.first == 0) {
      Superblock& empty = level.table[slot];
      found = {atomicCAS(&empty.key, u64{0}, name.key), 0};
      if (found.first == 0) {
        atomicOr(level.taken + slot / 32, 1u << slot % 32);
        found.first = name.key;
      }
      if (found.first == name.key) break;
    }
    // The last slot stays empty, because a search ends at an empty slot.
    if (++slot >= level.slots - 1 || slot - first > kMostProbes) return -1;
    if ((slot - first) % kProbesPerCheck == 0 && read_current_word(status) != 0) return -1;
    found = read_current(level.table + slot);
  }
  return static_cast<i32>(slot);
}

/// Returns true if no level of the launch has more blocks (VoxelBlock) than its capacity. Otherwise no voxel
/// may be marked, because some blocks have no memory.
MINUET_DEVICE bool blocks_fit(const IndexParams& p) {
  bool fit = true;
  for (i32 l = p.first_level; l < p.end_level; ++l)
    fit = fit && static_cast<u32>(fresh(p.index->blocks + l)) <= p.description.level[l].block_capacity;
  return fit;
}

}  // namespace minuet
