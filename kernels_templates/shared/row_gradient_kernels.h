// This file declares the Spec (compile time) and Params (run time) of the kernels that compute gradients of
// devoxelizing, and of poolings whose outputs have the rows of a group each: the points of a voxel, or the
// rows of a batch item. All pointers are device pointers.
//
// The gradient of a voxel is a sum over the points that read it. An entry is a point and one of its corners.
// Each entry gets the voxel's row as its key (key_entries), a stable sort by the key (runtime/cuda/sort.h)
// brings the entries of each row together, find_entries finds where they begin, and sum_entries adds them up.
//
// The gradient of a row is that of its group, all of it or a part. combine_groups finds what the parts depend
// on: the number of rows, or the row that gave the result. spread_groups writes the gradients of all rows.
#pragma once

#include "kernels_templates/shared/point_functions.h"
#include "kernels_templates/shared/types.h"

namespace minuet {

struct KeyEntriesSpec {
  i32 threads = 256;
  bool operator==(const KeyEntriesSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct FindEntriesSpec {
  i32 threads = 256;
  bool operator==(const FindEntriesSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct SumEntriesSpec {
  DType io = DType::F32;
  bool weighs = false;    // Says whether entries have weights. Without, the weight is 1.
  i32 vector_bytes = 16;  // Gives the width of one access, which divides every row's length.
  i32 threads = 256;
  bool operator==(const SumEntriesSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("weighs", weighs), visitor("vector_bytes", vector_bytes),
        visitor("threads", threads);
  }
};
struct EntriesParams {
  const i32* rows;       // Has the shape [corners][most]. A row that does not exist is left out.
  const float* weights;  // Has the same shape. It is read only if entries have weights.
  const i32* count;      // Points to the number of points. If the pointer is null, there are `most`.
  i64 most;
  i64 entries;           // Is corners * most. Entry k * most + i is corner k of point i.
  const i32* row_count;  // Points to the number of rows. If the pointer is null, there are most_rows.
  i64 most_rows;
  u32 *keys, *values;  // Receive the key and the number of each entry. The key is past_key if it has no row.
  u32 past_key;        // Is larger than every row.
  i32* sort_count;     // Receives the number of entries.
  const u32 *sorted_keys, *list;  // Hold the keys and the numbers of the entries after the sort.
  u32* begins;                    // Has the shape [most_rows + 1]: where the entries of each row begin.
  const void* out_gradient;       // Has the shape [most, channels].
  i32 vectors;                    // Counts the vectors of a row.
  void* output;                   // Receives [most_rows, channels] numbers.
};

struct CombineGroupsSpec {
  DType io = DType::F32;  // The rows are stored in it. Only Max reads them.
  PointReduction reduction = PointReduction::Mean;
  i32 threads = 128;
  bool operator==(const CombineGroupsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("reduction", reduction), visitor("threads", threads);
  }
};
struct SpreadGroupsSpec {
  DType io = DType::F32;   // The gradients of groups are stored in it.
  DType out = DType::F32;  // The gradients of rows are stored in it, and have at least as many bytes.
  PointReduction reduction = PointReduction::Mean;
  i32 vector_bytes = 16;  // Gives the width of one access to gradients of rows.
  i32 threads = 256;
  bool operator==(const SpreadGroupsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("out", out), visitor("reduction", reduction),
        visitor("vector_bytes", vector_bytes), visitor("threads", threads);
  }
};
/// A thread of combine_groups reads a channel of this many rows one after the other with Max, and makes one
/// atomic operation for consecutive rows of one group.
constexpr i32 kGroupRun = 32;
/// Presets GroupsParams::words for First. It is larger than every row.
constexpr u32 kNoFirstRow = 0x7fffffffu;
struct GroupsParams {
  const i32* groups;  // Holds the group of row r at r * groups_ld. Rows of groups that do not exist get 0.
  i64 groups_ld;
  const i32* row_count;  // Points to the number of rows. If the pointer is null, there are most_rows.
  i64 most_rows;
  const i32* group_count;  // Points to the number of groups. If the pointer is null, there are most_groups.
  i64 most_groups;
  const i32* sizes;  // Holds the number of rows of each group. If the pointer is null, `words` holds it.
  /// Has the shape [most_groups], and is preset. Receives the number of rows of each group with Mean (preset
  /// to 0), and the first row with First (preset to kNoFirstRow).
  u32* words;
  /// Has the shape [most_groups, channels], and is preset to 0. Receives the key (row_key()) of the row that
  /// is the maximum.
  u64* keys;
  const void* input;  // Holds the rows, of `channels` numbers each. Only Max reads it.
  i64 input_ld;
  i32 channels;
  i32 vectors;               // Counts the vectors of a row.
  const void* out_gradient;  // Has the shape [most_groups, channels].
  void* output;              // Receives [most_rows, channels] numbers.
};

/// Returns a key that is larger for a larger number, and for equal numbers for the lower row. NaN is the
/// largest number, and 0 equals -0. No key is 0.
MINUET_HD u64 row_key(float value, i64 row) {
  const u32 bits = __builtin_bit_cast(u32, value);
  u32 order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  if (value == 0) order = 0x80000000u;
  if (value != value) order = ~0u;
  return static_cast<u64>(order) << 32 | ~static_cast<u32>(row);
}
MINUET_HD constexpr i64 row_of_key(u64 key) { return ~static_cast<u32>(key); }

}  // namespace minuet
