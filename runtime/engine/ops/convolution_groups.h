// Implements padding-efficient GEMM grouping (Minuet paper, section 5.2.2), which sorts GEMMs by size
// and puts consecutive ones into a group.
#pragma once

#include <vector>

#include "codegen/choose/choice.h"

namespace minuet {

/// Describes one strided-batched GEMM of `count` offsets, which are adjacent in the buffers and padded to
/// equal height.
struct GemmGroup {
  i64 first_row = 0;  // Holds the first row of the group in the buffers.
  i64 height = 0;     // Counts the rows of each offset, including padding.
  i32 first_slot = 0;
  i32 count = 0;
};

/// Points to device copies of a GroupPlan's tables, which have [volume] elements each.
struct GroupTables {
  const i32* row_base = nullptr;
  const i32* padding_ends = nullptr;
  const i32* padding_start = nullptr;
  const i32* order = nullptr;
};

/// Says how the GEMMs of one kernel map run for one cloud. Filling it again for another cloud does not
/// allocate memory.
struct GroupPlan {
  /// Lists the [volume] offsets by ascending number of pairs, except that direct_offset comes last. A slot is
  /// an index into this list.
  std::vector<i32> order;
  std::vector<i32> row_base;       // Holds the first buffer row of each offset.
  std::vector<i32> padding_ends;   // Holds inclusive prefix sums of the padding rows of each offset.
  std::vector<i32> padding_start;  // Holds the first padding row of each offset.
  /// These groups hold the offsets that have pairs, except direct_offset. The largest group comes first.
  std::vector<GemmGroup> groups;
  /// The GEMM of this offset reads the features in place and writes the first terms of the sums. The number
  /// is -1 if there is no such offset.
  i32 direct_offset = -1;
  i64 direct_rows = 0;
  i64 pairs = 0;  // Counts the pairs of all offsets, including those of direct_offset.
  i64 padding_rows = 0;
  i64 gathered_rows = 0;  // Counts the buffer rows of all groups, including padding.
  i64 largest_height = 0;
  i32 streams = 1;  // Limits the number of streams that run the GEMMs.

  explicit GroupPlan(i32 volume = 0);
};

constexpr i32 kGroupTables = 4;
/// Copies the plan's tables to `target` one after the other, in the order of GroupTables. The copy has shape
/// [kGroupTables][volume]. Returns its end.
i32* copy_tables(const GroupPlan& plan, i32* target);

/// Returns pointers to the tables that begin at `tables`, in the order of copy_tables(). All pointers are
/// null if `tables` is null.
GroupTables tables_at(const i32* tables, i32 volume);

/// Groups the GEMMs of a map. `counts` holds the number of pairs of each of the [volume] offsets.
/// `direct_offset` is the offset that has a pair for every row, or -1. Returns OutOfRange if a buffer would
/// have more than 2^31 - 1 rows.
llvm::Error group_gemms(const i32* counts, i32 volume, i32 direct_offset, const GroupingChoice& choice,
                        GroupPlan& plan);

/// Describes a part of a layer that is gathered, multiplied and scattered at once, so that the buffers need
/// not fit all pairs. The ends `last_row` and `last_group` are exclusive.
struct GemmSlice {
  i64 first_row = 0, last_row = 0;  // The rows are numbered as in the GroupPlan.
  i32 first_group = 0, last_group = 0;
};
struct GemmSlices {
  std::vector<GemmSlice> slices;  // There is at least one slice.
  /// Lists the groups of all slices. Each slice's largest group comes first, and the rows of its groups are
  /// counted from the first row of the slice.
  std::vector<GemmGroup> groups;
};

/// Returns how many rows the buffers of a layer have. These are as many rows of `row_bytes` bytes as fit into
/// `scratch_bytes`, but at least those of the largest GEMM, and at most those that the plan gathers.
i64 slice_rows(const GroupPlan& plan, i64 row_bytes, i64 scratch_bytes);

/// Returns true if partial sums must be kept in memory. This is the case if the GEMM of direct_offset writes
/// the first terms of the sums, or if there are several slices.
inline bool needs_sums(const GroupPlan& plan, i64 slice_rows) {
  return plan.direct_rows > 0 || plan.gathered_rows > slice_rows;
}

/// Divides the offsets into slices of at most `rows` rows (see slice_rows) and stores them in `slices`. An
/// offset is never split.
void slice_groups(const GroupPlan& plan, i64 rows, GemmSlices& slices);

}  // namespace minuet
