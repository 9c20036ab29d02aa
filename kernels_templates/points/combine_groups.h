// The kernel combine_groups counts the rows of each group, finds its first row, or finds, for each channel,
// the row that has the maximum. Of equal rows the lowest one is found, in whatever order threads arrive. Each
// thread handles one row at a time, or with Max one channel of kGroupRun rows.
#pragma once

#include "kernels_templates/core/votes.h"
#include "kernels_templates/points/point_table.h"
#include "kernels_templates/shared/row_gradient_kernels.h"

namespace minuet {

/// Returns the group of a row, or -1 if it has none.
MINUET_DEVICE i64 group_of_row(const GroupsParams& p, i64 row, i64 rows, i64 groups) {
  const i64 group = row < rows ? fresh(p.groups + row * p.groups_ld) : -1;
  return group >= 0 && group < groups ? group : -1;
}

/// Replaces *key by `other` if that is larger.
MINUET_DEVICE void raise_key(u64* key, u64 other) {
  auto* const address = reinterpret_cast<unsigned long long*>(key);
  // A key that was read too early is smaller, and the exchange then tells the current one.
  for (unsigned long long known = *address; known < other;) {
    const unsigned long long found = atomicCAS(address, known, static_cast<unsigned long long>(other));
    if (found == known) return;
    known = found;
  }
}

template <DType T>
MINUET_DEVICE float load_number(const void* base, i64 element) {
  if constexpr (dtype_bytes(T) == 4) {
    return fresh(static_cast<const float*>(base) + element);
  } else {
    return from_16_bits<T>(fresh(static_cast<const u16*>(base) + element));
  }
}

/// Finds the maximum of a channel of the rows from `first` to `end`.
template <DType T>
MINUET_DEVICE void find_maxima(const GroupsParams& p, i64 first, i64 end, i64 rows, i64 groups, i64 channel) {
  i64 group = -1;
  u64 best = 0;
  for (i64 row = first; row < end; ++row) {
    const i64 next = group_of_row(p, row, rows, groups);
    if (next != group && group >= 0) raise_key(p.keys + group * p.channels + channel, best);
    if (next != group) group = next, best = 0;
    if (group < 0) continue;
    const u64 key = row_key(load_number<T>(p.input, row * p.input_ld + channel), row);
    best = key > best ? key : best;
  }
  if (group >= 0) raise_key(p.keys + group * p.channels + channel, best);
}

template <CombineGroupsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void combine_groups(MINUET_PARAMS(GroupsParams) p) {
  follow_last_launch();
  const i64 rows = count_within(p.row_count, p.most_rows);
  const i64 groups = count_within(p.group_count, p.most_groups);
  const i64 thread = grid_thread(S.threads), step = grid_threads(S.threads);
  if constexpr (S.reduction == PointReduction::Max) {
    const i64 runs = (rows + kGroupRun - 1) / kGroupRun;
    RowIterator at(thread, step, p.channels);
    for (i64 item = thread; item < runs * p.channels; item += step, at.advance()) {
      const i64 first = at.outer() * kGroupRun, end = first + kGroupRun < rows ? first + kGroupRun : rows;
      find_maxima<S.io>(p, first, end, rows, groups, at.inner());
    }
  } else {
    const i64 lane = threadIdx.x & 31u;
    for (i64 first = thread - lane; first < rows; first += step) {
      const i64 row = first + lane, group = group_of_row(p, row, rows, groups);
      if constexpr (S.reduction == PointReduction::First) {
        if (group >= 0) atomicMin(reinterpret_cast<i32*>(p.words + group), static_cast<i32>(row));
      } else {
        count_equal(p.words, static_cast<i32>(group));
      }
    }
  }
}

}  // namespace minuet
