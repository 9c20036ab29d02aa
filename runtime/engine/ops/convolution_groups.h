// Padding-efficient GEMM grouping (paper, section 5.2.2): sort GEMMs by size and group neighbours.
#pragma once

#include <vector>

#include "codegen/choose/choice.h"

namespace minuet {

/// One strided-batched GEMM: `count` offsets padded to equal height, adjacent in the buffers.
struct GemmGroup {
  i64 first_row = 0;  // in the buffers
  i64 height = 0;     // rows of each member, including padding
  i32 first_slot = 0;
  i32 count = 0;
};

/// Device copies of a GroupPlan's tables, each [volume] i32.
struct GroupTables {
  const i32* row_base = nullptr;
  const i32* padding_ends = nullptr;
  const i32* padding_start = nullptr;
  const i32* order = nullptr;
};

/// How the GEMMs of one kernel map run for one cloud. Refilling it does not allocate.
struct GroupPlan {
  std::vector<i32> order;          // [volume] slot -> offset, by ascending size, ties by offset
  std::vector<i32> row_base;       // [volume] by offset: its first buffer row
  std::vector<i32> padding_ends;   // [volume] by offset: inclusive prefix sums of padding rows
  std::vector<i32> padding_start;  // [volume] by offset: its first padding row
  std::vector<GemmGroup> groups;   // non-empty offsets except the direct one, largest first
  i32 direct_offset = -1;  // its GEMM reads the features in place and writes the first terms of the sums
  i64 direct_rows = 0;
  i64 pairs = 0;  // useful rows, including those of the direct offset
  i64 padding_rows = 0;
  i64 gathered_rows = 0;  // rows of all groups
  i64 largest_height = 0;
  i32 streams = 1;  // streams that the GEMMs may be distributed over

  explicit GroupPlan(i32 volume = 0);
};

constexpr i32 kGroupTables = 4;
/// Copies the host's tables one after the other, in the order of GroupTables: [kGroupTables][volume]. Returns
/// the end.
i32* copy_tables(const GroupPlan& plan, i32* target);

/// Returns the pointers of tables copied to `tables`; all are null if `tables` is null.
GroupTables tables_at(const i32* tables, i32 volume);

/// Groups the GEMMs of a map. `counts` [volume] are the pairs of each offset; `direct_offset` is -1, or the
/// offset that covers every row. Returns OutOfRange if a buffer would have more than 2^31 - 1 rows.
llvm::Error group_gemms(const i32* counts, i32 volume, i32 direct_offset, const GroupingChoice& choice,
                        GroupPlan& plan);

/// A part of a layer that is gathered, multiplied and scattered at once, so that the buffers need not fit all
/// pairs.
struct GemmSlice {
  i64 first_row = 0, last_row = 0;  // rows of the plan
  i32 first_group = 0, last_group = 0;
};
struct GemmSlices {
  std::vector<GemmSlice> slices;  // at least one
  std::vector<GemmGroup> groups;  // rows count from the first row of the slice; within a slice, largest first
};

/// Returns the number of buffer rows of a layer: as many as fit `scratch_bytes` at `row_bytes` a row, at
/// least one whole GEMM, and no more than the plan gathers.
i64 slice_rows(const GroupPlan& plan, i64 row_bytes, i64 scratch_bytes);

/// Returns true if partial sums must be kept in memory: the direct offset writes its terms before the slices,
/// and each slice before the next.
inline bool needs_sums(const GroupPlan& plan, i64 slice_rows) {
  return plan.direct_rows > 0 || plan.gathered_rows > slice_rows;
}

/// Divides the offsets into slices of at most `rows` rows (see slice_rows). An offset is never split. Refills
/// `slices`.
void slice_groups(const GroupPlan& plan, i64 rows, GemmSlices& slices);

}  // namespace minuet
