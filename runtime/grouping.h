// Padding-efficient GEMM grouping (paper 5.2.2): sort GEMMs by size, group neighbours.
#pragma once

#include <vector>

#include "codegen/choice.h"

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
  i32 direct_offset = -1;          // reads the features in place; its partial sums come last
  i64 direct_rows = 0;
  i64 pairs = 0;  // useful rows, the direct offset's included
  i64 padding_rows = 0;
  i64 gathered_rows = 0;  // rows of the gather buffer
  i64 buffer_rows = 0;    // rows of the GEMM buffer: gathered_rows + direct_rows

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

}  // namespace minuet
