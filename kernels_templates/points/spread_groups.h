// The kernel spread_groups sets the gradient of each row to that of its group: as it is with Sum, divided by
// the number of rows with Mean, and otherwise only the elements that the row has given to the group. Rows
// without a group, and rows past the last one, become 0. Each thread handles one vector of one row at a time.
#pragma once

#include "kernels_templates/core/vector.h"
#include "kernels_templates/points/combine_groups.h"

namespace minuet {

template <SpreadGroupsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void spread_groups(MINUET_PARAMS(GroupsParams) p) {
  follow_last_launch();
  constexpr i32 kElements = S.vector_bytes / dtype_bytes(S.out), kBytes = kElements * dtype_bytes(S.io);
  const i64 rows = count_within(p.row_count, p.most_rows);
  const i64 groups = count_within(p.group_count, p.most_groups);
  const i64 thread = grid_thread(S.threads), step = grid_threads(S.threads);
  RowIterator at(thread, step, p.vectors);
  for (i64 item = thread; item < p.most_rows * p.vectors; item += step, at.advance()) {
    const i64 row = at.outer(), vector = at.inner();
    const i64 group = group_of_row(p, row, rows, groups);
    const bool is_there = group >= 0;
    const i64 from = (is_there ? group : 0) * p.vectors + vector;
    float values[kElements];
    to_floats<S.io>(load_vector_if<kBytes, true>(is_there, p.out_gradient, from * kBytes), values);
    if constexpr (S.reduction == PointReduction::Mean) {
      if (is_there) {
        const float size = p.sizes != nullptr ? static_cast<float>(fresh(p.sizes + group))
                                              : static_cast<float>(fresh(p.words + group));
        MINUET_UNROLL
        for (i32 e = 0; e < kElements; ++e) values[e] = rounded_quotient(values[e], size);
      }
    } else if constexpr (S.reduction != PointReduction::Sum) {
      MINUET_UNROLL
      for (i32 e = 0; e < kElements; ++e) {
        if (!is_there) continue;
        const i64 giver = S.reduction == PointReduction::First
                              ? i64{fresh(p.words + group)}
                              : row_of_key(fresh(p.keys + from * kElements + e));
        if (giver != row) values[e] = 0;
      }
    }
    store_vector(p.output, item * S.vector_bytes, from_floats<S.out, S.vector_bytes>(values));
  }
}

}  // namespace minuet
