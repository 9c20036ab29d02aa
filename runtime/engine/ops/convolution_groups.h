// Padding-efficient GEMM grouping (paper 5.2.2): sort GEMMs by size, group neighbours.
#pragma once

#include <vector>

#include "codegen/choose/choice.h"

namespace minuet {

/// One strided-batched GEMM: `count` offsets of equal height, one after the other in the buffers.
struct GemmGroup {
  i64 first_row = 0;  // in the buffers
  i64 height = 0;     // rows of each member, padding included
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

/// How the GEMMs of one kernel map run, for one cloud. Filled again and again without allocating.
struct GroupPlan {
  std::vector<i32> order;          // [volume] slot -> offset: sizes ascending, ties by offset
  std::vector<i32> row_base;       // [volume] by offset: its first buffer row
  std::vector<i32> padding_ends;   // [volume] by offset: inclusive sums of padding rows
  std::vector<i32> padding_start;  // [volume] by offset: its first padding row
  std::vector<GemmGroup> groups;   // non-empty offsets but the direct one, largest first
  i32 direct_offset = -1;          // reads the features in place, and its GEMM writes the sums' first terms
  i64 direct_rows = 0;
  i64 pairs = 0;  // useful rows, the direct offset's included
  i64 padding_rows = 0;
  i64 gathered_rows = 0;  // of all groups
  i64 largest_height = 0;
  i32 streams = 1;  // that the GEMMs may be spread over

  explicit GroupPlan(i32 volume = 0);
};

constexpr i32 kGroupTables = 4;
/// The host's tables one after the other, in GroupTables' order: [kGroupTables][volume]. Returns the end.
i32* copy_tables(const GroupPlan& plan, i32* target);

/// Where they lie once they are copied to `tables`; nowhere for null.
GroupTables tables_at(const i32* tables, i32 volume);

/// counts: [volume] pairs per offset. direct_offset: -1, or the offset that covers every row.
/// OutOfRange where a buffer would pass 2^31 - 1 rows.
llvm::Error group_gemms(const i32* counts, i32 volume, i32 direct_offset, const GroupingChoice& choice,
                        GroupPlan& plan);

/// What one layer gathers, multiplies and scatters at a time, so that its buffers need not hold all pairs.
struct GemmSlice {
  i64 first_row = 0, last_row = 0;  // in the plan's rows
  i32 first_group = 0, last_group = 0;
};
struct GemmSlices {
  std::vector<GemmSlice> slices;  // at least one
  std::vector<GemmGroup> groups;  // rows count from their slice's first; in a slice, largest first
};

/// Rows that the buffers of a layer have, where they may take `scratch_bytes` with `row_bytes` a row: a slice
/// has whole GEMMs, and at least one.
i64 slice_rows(const GroupPlan& plan, i64 row_bytes, i64 scratch_bytes);

/// Whether sums wait in memory for more: the direct offset's come first, a slice's before the next one's.
inline bool needs_sums(const GroupPlan& plan, i64 slice_rows) {
  return plan.direct_rows > 0 || plan.gathered_rows > slice_rows;
}

/// Whole offsets in slices of at most `rows` rows (slice_rows). Refills `slices`.
void slice_groups(const GroupPlan& plan, i64 rows, GemmSlices& slices);

}  // namespace minuet
