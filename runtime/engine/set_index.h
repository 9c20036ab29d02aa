// Computes the key ranges and sizes of indexes of coordinate sets
// (kernels_templates/shared/voxel_index.h), and places their memory.
#pragma once

#include "kernels_templates/shared/voxel_index.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/cloud_layout.h"
#include "runtime/engine/set_spec.h"

namespace minuet {

class Placement;

/// Returns the bounds of the coordinates that an index accepts if the caller declares none. With three
/// axes, these are the batches 0 to 8191 and coordinates from -2^20 to 2^20 - 17.
Bounds default_index_bounds(i32 ndim);

/// Returns bounds that are wider than those of a cloud, so that similar clouds fit too. The range of each
/// axis is about three times as long, but does not grow beyond -2^30 to 2^30 - 1. The range of batches
/// begins at 0 and grows only upwards.
Bounds widened(const Bounds& bounds, i32 ndim);

/// Returns the description of an index without its memory. Its level l has the coordinates of sets[l], whose
/// voxels are its cells. Returns OutOfRange if the bounds need keys of more than 64 bits, or if a coordinate
/// of a level does not fit into 32 bits. Returns InvalidArgument if a batch index is negative.
llvm::Expected<VoxelIndex> describe_index(i32 ndim, const Bounds& bounds, llvm::ArrayRef<SetSpec> sets);

/// Returns `bounds`, or narrower ones if keys of 64 bits cannot hold the sets that follow from coordinates in
/// `bounds`. The ranges of the axes become shorter by 1/64 if that is enough. Otherwise the range of batches
/// becomes shorter first, and then the ranges of the axes. Callers use it for bounds that are not declared.
Bounds narrowed(i32 ndim, const Bounds& bounds, llvm::ArrayRef<SetSpec> sets);

/// Returns the number of levels, from level 0 on, that are made of the caller's coordinates together. These
/// coordinates, rounded down, are those of each of these levels. Each later level is made of the rows of its
/// parents, one level after the other.
i32 levels_of_points(llvm::ArrayRef<SetSpec> sets);

/// Returns the number of hash-table slots of a level with at most `capacity` rows. This is at least two
/// per row, so that the table is at most half full even if each row has a superblock (Superblock) of its
/// own, but never more than kMostIndexSlots.
i64 level_slots(i64 capacity);

/// Points to the memory of an index, which this struct does not own.
struct IndexMemory {
  VoxelIndex* index = nullptr;  // Points to the index. It is null if there is none.
  Superblock* table = nullptr;  // Points to the `slots` hash-table slots of all levels.
  u32* taken = nullptr;         // Points to the words IndexLevel::taken of all levels, slots / 32 words.
  i64 slots = 0;
  u32* sums = nullptr;  // Points to the look-back states of all levels, `sum_words` words.
  i64 sum_words = 0;
  VoxelBlock* blocks[kMostIndexedLevels] = {};
  RowPlace* rows[kMostIndexedLevels] = {};
};

/// Places the parts of an index that are not those of one level: IndexMemory::index, `table`, `taken` and
/// `sums`. `table` and `taken` keep their content from cloud to cloud, and the caller must set them to 0
/// before the first cloud.
void place_index_table(Placement& parts, llvm::ArrayRef<i64> capacities, IndexMemory& memory);
/// Places IndexMemory::rows of a level. The coordinates of the level are read from this array and from the
/// table.
void place_index_rows(Placement& parts, i64 capacity, i32 level, IndexMemory& memory);
/// Places IndexMemory::blocks of a level. This array is needed only until all sets, maps and views of a
/// cloud are made.
void place_index_blocks(Placement& parts, i64 capacity, i32 level, IndexMemory& memory);

/// Adds the sizes and the memory of each level to a description. A capacity may be smaller than the one
/// for which the memory of the level was placed.
void assign_memory(VoxelIndex& description, const IndexMemory& memory, llvm::ArrayRef<i64> capacities);

/// Returns true if the kernel's offsets lead from each coarse coordinate to exactly those fine coordinates
/// that lie in its voxel. Each row of the finer set then has a pair with only one row of the coarser set,
/// the one in whose voxel it lies.
bool fills_voxels(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                  const AxisArray& fine_stride, const AxisArray& coarse_stride);

}  // namespace minuet
