// The kernel order_cells writes the outputs of order_rows for views whose rows are not in a table. It looks
// them up in an index, at the offsets that the masks have. Each thread handles one place of a view.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/ordered_places.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/cell_lines.h"
#include "kernels_templates/map/parent_offset.h"

namespace minuet {

/// Delivers the bits of the masks of a block's places in small groups, and writes the ordered masks word by
/// word as the bits are needed.
template <i32 Threads>
class MaskBits {
 public:
  using Bits = typename OrderedMasks<Threads>::Word;

  MINUET_DEVICE MaskBits(OrderedMasks<Threads>& masks, const ViewJob& job, const OrderedPlace& at)
      : masks_(masks), job_(job), at_(at) {}
  /// Returns the next `count` bits, at most 32. All threads of a block must call it.
  MINUET_DEVICE Bits take(i32 count) {
    if (there_ < count) {
      const Bits word = masks_.put(job_, at_, word_++);
      own_ |= static_cast<u64>(word.own) << there_;
      united_ |= static_cast<u64>(word.union_bits) << there_;
      there_ += 32;
    }
    const u64 taken = (u64{1} << count) - 1;
    const Bits bits{static_cast<u32>(own_ & taken), static_cast<u32>(united_ & taken)};
    own_ >>= count, united_ >>= count;
    there_ -= count;
    return bits;
  }

 private:
  OrderedMasks<Threads>& masks_;
  const ViewJob& job_;
  const OrderedPlace& at_;
  u64 own_ = 0, united_ = 0;
  i32 there_ = 0, word_ = 0;
};

/// Writes the ordered rows of several lines, beginning with stored line `line`.
template <i32 Ndim, i32 Threads>
MINUET_DEVICE void order_lines(const ViewJob& job, const OrderedPlace& at, const CellIndex& index,
                               const CellLines<Ndim>& lines, i64 center, i32 line, MaskBits<Threads>& mask) {
  const i32 several = lines_together(lines, line), length = lines.length;
  const auto bits = mask.take(several * length);
  if (bits.union_bits == 0) return;
  LineCells found[kLinesAtOnce];
  find_several(index, lines, line, bits.own, center, found);
  i32 rows[kLinesAtOnce][kLongestLine];
  MINUET_UNROLL
  for (i32 u = 0; u < kLinesAtOnce; ++u) {
    MINUET_UNROLL
    for (i32 i = 0; i < kLongestLine; ++i) rows[u][i] = (found[u].bits >> i & 1u) != 0 ? found[u].row++ : -1;
    if (job.row_ids != nullptr) name_rows(job.row_ids, rows[u]);
  }
  i32* to = job.ordered_rows + i64{lines.first + line} * length * job.ordered_stride + at.place;
  MINUET_UNROLL
  for (i32 u = 0; u < kLinesAtOnce; ++u) {
    MINUET_UNROLL
    for (i32 i = 0; i < kLongestLine; ++i) {
      if (u >= several || i >= length) continue;
      if (at.is_there && (bits.union_bits >> (u * length + i) & 1u) != 0) *to = rows[u][i];
      to += job.ordered_stride;
    }
  }
}

/// Writes the one row of a place whose query is inside a cell of the coarser side.
template <i32 Ndim, i32 Threads>
MINUET_DEVICE void order_parent(const ViewJob& job, const OrderedPlace& at, const CellIndex& index,
                                const CellLines<Ndim>& lines, i64 cell, MaskBits<Threads>& mask) {
  i32 rows[] = {find_row(index, lines.grid, at.is_there, cell)};
  if (job.row_ids != nullptr) name_rows(job.row_ids, rows);
  const auto bits = mask.take(job.geometry.volume);
  i32* const to = job.ordered_rows + at.place;
  for (u32 left = at.is_there ? bits.union_bits : 0; left != 0; left &= left - 1) {
    const i32 k = lowest_bit(left);
    to[k * job.ordered_stride] = (bits.own >> k & 1u) != 0 ? rows[0] : -1;
  }
}

template <OrderCellsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads, kLineThreads<S.ndim> /
                                                  S.threads) void order_cells(MINUET_PARAMS(ViewsParams) p) {
  follow_last_launch();
  using Key = typename KeyOf<S.key>::Type;
  __shared__ ViewStarts starts;
  __shared__ CellLines<S.ndim> lines;
  find_view_starts<S.threads>(starts, p, [](const ViewJob& job) { return job.source != RowSource::Table; });
  JobIterator walk(starts.blocks);
  OrderedMasks<S.threads> masks;
  i32 made = -1;  // This is the view whose first lines are stored, or -1.
  for (i64 block = blockIdx.x; block < starts.blocks[p.job_count]; block += gridDim.x) {
    const i32 j = walk.advance(block);
    const ViewJob& job = p.jobs[j];
    const OrderedPlace at = find_place(job, p.sorted + starts.queries[j], walk.inner(block) * S.threads);
    const Key key = at.is_there ? fresh(static_cast<const Key*>(job.query_keys) + at.query) : Key{0};
    if (made != j)
      make_lines<S.ndim, S.threads>(lines, job.geometry, p.index, job.source_level, *p.layout, 0);
    made = j;
    const i64 cell = at.is_there ? cell_of_key(lines, key) : 0;
    MaskBits<S.threads> mask(masks, job, at);
    if (job.source == RowSource::Parents) {
      order_parent(job, at, p.index, lines, cell, mask);
      continue;
    }
    for (i32 line = 0; line < lines.count; line += kLinesAtOnce) {
      if (line - lines.first >= kMostLines) {
        make_lines<S.ndim, S.threads>(lines, job.geometry, p.index, job.source_level, *p.layout, line);
        made = -1;
      }
      order_lines(job, at, p.index, lines, cell, line - lines.first, mask);
    }
  }
}

}  // namespace minuet
