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

/// Returns the number of hash-table slots of a level with at most `capacity` rows if the caller declares
/// none. This is at least two per row, so that the table is at most half full even if each row has a
/// superblock (Superblock) of its own, but never more than kMostIndexSlots.
i64 default_level_slots(i64 capacity);
/// Returns the number of hash-table slots of a level with at most `capacity` rows, for which the caller
/// declares `declared` slots, or 0. A declared number is rounded up to whole tiles (kSlotTile) and to at
/// least one slot per kMostRowsPerSlot rows.
i64 level_slots(i64 capacity, i64 declared = 0);
/// Returns the argument of level_slots() for a level. `declared_slots` has it for each level, or is empty if
/// the caller declares no slots.
inline i64 slots_declared_for(std::size_t level, llvm::ArrayRef<i64> declared_slots) {
  return declared_slots.empty() ? 0 : declared_slots[level];
}
/// Returns an error if the caller cannot declare this number of slots for a level: InvalidArgument if it is
/// negative, and OutOfRange if it is larger than kMostIndexSlots.
llvm::Error check_slots(i64 declared);
/// Limits the rows of a level per slot. The look-back states of number_rows, whose number grows with the
/// rows, then take less than the 7/8 byte by which a slot and its bit are smaller than 33 bytes. So an index
/// never takes more than 33 bytes per slot and 24 bytes per row.
constexpr i64 kMostRowsPerSlot = 32;

/// Points to the memory of an index, which this struct does not own.
struct IndexMemory {
  /// Points to the first index_header_bytes() of the index. It is null if there is none.
  VoxelIndex* index = nullptr;
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
/// before the first cloud. `declared_slots` is that of slots_declared_for().
void place_index_table(Placement& parts, llvm::ArrayRef<i64> capacities, IndexMemory& memory,
                       llvm::ArrayRef<i64> declared_slots = {});
/// Places IndexMemory::rows of a level. The coordinates of the level are read from this array and from the
/// table.
void place_index_rows(Placement& parts, i64 capacity, i32 level, IndexMemory& memory);
/// Places IndexMemory::blocks of a level. This array is needed only until all sets, maps and views of a
/// cloud are made.
void place_index_blocks(Placement& parts, i64 capacity, i32 level, IndexMemory& memory);

/// Adds the sizes and the memory of each level to a description. A capacity may be smaller than the one
/// for which the memory of the level was placed, if no slots are declared.
void assign_memory(VoxelIndex& description, const IndexMemory& memory, llvm::ArrayRef<i64> capacities,
                   llvm::ArrayRef<i64> declared_slots = {});

/// Holds the bytes of an index. `table` is what place_index_table() places, and `rows` is what
/// place_index_rows() and place_index_blocks() place for all levels.
struct IndexSizes {
  i64 slots = 0;  // Counts the hash-table slots of all levels.
  i64 table = 0, rows = 0;
};
/// Returns the bytes that an index with these capacities and slots takes.
IndexSizes measure_index(llvm::ArrayRef<i64> capacities, llvm::ArrayRef<i64> declared_slots = {});

/// Returns true if the kernel's offsets lead from each coarse coordinate to exactly those fine coordinates
/// that lie in its voxel. Each row of the finer set then has a pair with only one row of the coarser set,
/// the one in whose voxel it lies.
bool fills_voxels(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                  const AxisArray& fine_stride, const AxisArray& coarse_stride);

}  // namespace minuet
