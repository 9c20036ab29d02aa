// As order_rows, of views whose rows are looked up in an index: ordered_rows[k][i] = the row of order[i] +
// offset k, or -1, where the masks say that there is one. One thread a place.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/view_rows.h"
#include "kernels_templates/map/cell_lines.h"
#include "kernels_templates/map/parent_offset.h"

namespace minuet {

/// Bits of a place's mask, which go to the ordered masks word by word as they are wanted.
class MaskBits {
 public:
  MINUET_DEVICE MaskBits(const ViewJob& job, const OrderedPlace& at) : job_(job), at_(at) {}
  /// The next `count`, at most 32. By whole warps.
  MINUET_DEVICE u32 take(i32 count) {
    if (there_ < count) {
      const i64 queries = *job_.query_count;
      const u32 word = at_.is_there ? fresh(job_.masks + word_ * queries + at_.query) : 0u;
      put_ordered_mask(job_, at_, word_++, word);
      left_ |= static_cast<u64>(word) << there_;
      there_ += 32;
    }
    const u32 bits = static_cast<u32>(left_ & ((u64{1} << count) - 1));
    left_ >>= count;
    there_ -= count;
    return bits;
  }

 private:
  const ViewJob& job_;
  const OrderedPlace& at_;
  u64 left_ = 0;
  i32 there_ = 0, word_ = 0;
};

/// The rows of several lines, from `line` of those at hand on.
template <i32 Ndim>
MINUET_DEVICE void order_lines(const ViewJob& job, const OrderedPlace& at, const CellIndex& index,
                               const CellLines<Ndim>& lines, i64 center, i32 line, MaskBits& mask) {
  const i32 several = lines_together(lines, line), length = lines.length;
  LineCells found[kLinesAtOnce];
  find_several(index, lines, line, mask.take(several * length), center, found);
  i32* to = job.ordered_rows + i64{lines.first + line} * length * job.ordered_stride + at.place;
  MINUET_UNROLL
  for (i32 u = 0; u < kLinesAtOnce; ++u) {
    i32 rows[kLongestLine];
    MINUET_UNROLL
    for (i32 i = 0; i < kLongestLine; ++i) rows[i] = (found[u].bits >> i & 1u) != 0 ? found[u].row++ : -1;
    if (job.row_names != nullptr) name_rows(job.row_names, rows);
    MINUET_UNROLL
    for (i32 i = 0; i < kLongestLine; ++i) {
      if (u >= several || i >= length) continue;
      if (at.is_there) *to = rows[i];
      to += job.ordered_stride;
    }
  }
}

/// The one row of a place whose query lies in its cell.
template <i32 Ndim>
MINUET_DEVICE void order_parent(const ViewJob& job, const OrderedPlace& at, const CellIndex& index,
                                const CellLines<Ndim>& lines, i64 cell, MaskBits& mask) {
  i32 rows[] = {find_row(index, lines.grid, at.is_there, cell)};
  if (job.row_names != nullptr) name_rows(job.row_names, rows);
  const i32 offset = lowest_bit(mask.take(job.geometry.volume));
  i32* to = job.ordered_rows + at.place;
  for (i32 k = 0; k < job.geometry.volume; ++k, to += job.ordered_stride) {
    if (at.is_there) *to = k == offset ? rows[0] : -1;
  }
}

template <OrderCellsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void order_cells(const ViewsParams p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  __shared__ i64 keys[kMostViews + 1], blocks[kMostViews + 1];
  __shared__ CellLines<S.ndim> lines;
  find_starts<S.threads, kMostViews>(
      keys, p.job_count, [&](i32 j) -> i64 { return p.jobs[j].order ? *p.jobs[j].query_count : 0; });
  find_starts<S.threads, kMostViews>(blocks, p.job_count, [&](i32 j) -> i64 {
    const bool is_here = p.jobs[j].order && p.jobs[j].source != RowSource::Table;
    return is_here ? blocks_of_height(*p.jobs[j].query_count, S.threads) : 0;
  });
  const KeyLayout layout = with_ndim<S.ndim>(p.layout->keys);
  JobWalk walk(blocks);
  i32 made = -1;  // the view whose first lines are at hand
  for (i64 block = blockIdx.x; block < blocks[p.job_count]; block += gridDim.x) {
    const i32 j = walk.advance(block);
    const ViewJob& job = p.jobs[j];
    const OrderedPlace at = find_place(job, p.sorted + keys[j], walk.inner(block) * S.threads);
    if (at.is_there)
      job.order[at.place] = job.query_names ? fresh(job.query_names + at.query) : static_cast<i32>(at.query);
    const Key key = at.is_there ? fresh(static_cast<const Key*>(job.query_keys) + at.query) : Key{0};
    if (made != j) make_lines<S.ndim, S.threads>(lines, job.geometry, p.index, job.source_level, 0);
    made = j;
    const i64 cell = at.is_there ? cell_of_key<S.ndim>(layout, lines.grid, key) : 0;
    MaskBits mask(job, at);
    if (job.source == RowSource::Parents) {
      order_parent(job, at, p.index, lines, cell, mask);
      continue;
    }
    for (i32 line = 0; line < lines.count; line += kLinesAtOnce) {
      if (line - lines.first >= kMostLines) {
        make_lines<S.ndim, S.threads>(lines, job.geometry, p.index, job.source_level, line);
        made = -1;
      }
      order_lines(job, at, p.index, lines, cell, line - lines.first, mask);
    }
  }
}

}  // namespace minuet
