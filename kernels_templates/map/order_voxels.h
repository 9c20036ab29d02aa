// The kernel order_voxels writes the same outputs as the kernel order_rows (order_rows.h), for views
// (ViewJob) whose rows are looked up in an index (voxel_index.h) instead of a table. It looks up only the
// offsets that the masks have. Each thread handles one place, which is a position in the sorted order of a
// view's queries.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/ordered_places.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/map/children.h"
#include "kernels_templates/map/neighbours.h"

namespace minuet {

/// Reads the mask of the query at a thread's place (OrderedPlace), from the lowest bit to the highest.
/// Each time that this class needs the next word of the mask, OrderedMasks::put() also writes this word to
/// the ordered masks.
template <i32 Threads>
class MaskBits {
 public:
  using Bits = typename OrderedMasks<Threads>::Word;

  MINUET_DEVICE MaskBits(OrderedMasks<Threads>& masks, const ViewJob& job, const OrderedPlace& at)
      : masks_(masks), job_(job), at_(at) {}
  /// Returns the next `count` bits, at most 32. All threads of a block must call this function.
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

/// Writes the rows of a place (OrderedPlace) at one line of offsets, which differ on the last axis only.
/// Bit i of `union_bits` says whether the row at offset i of the line is written. `to` points to the entry
/// for the first offset of the line.
MINUET_DEVICE void order_line(const ViewJob& job, const OrderedPlace& at, LineVoxels& found, u32 union_bits,
                              i32 length, i32* to) {
  MINUET_UNROLL
  for (i32 i = 0; i < kLongestLine; ++i, to += job.ordered_stride) {
    if (i >= length) break;
    i32 row[] = {found.take(i)};
    if (job.row_ids != nullptr) name_rows(job.row_ids, row);
    if (at.is_there && (union_bits >> i & 1u) != 0) *to = row[0];
  }
}

/// Writes the ordered rows of a place (OrderedPlace) whose window (Window) has `Size` offsets on each
/// axis.
template <i32 Ndim, i32 Size, i32 Threads>
MINUET_DEVICE void order_cube(const ViewJob& job, const OrderedPlace& at, const NeighbourSearch<Ndim>& setup,
                              OrderedMasks<Threads>& masks, WindowBlocks<Ndim, Threads>& blocks) {
  constexpr i32 kLines = Ndim == 1 ? 1 : Ndim == 2 ? Size : Size * Size;
  const typename OrderedMasks<Threads>::Word bits = masks.put(job, at, 0);
  if constexpr (Size % 2 == 1) {
    constexpr i32 kCentre = kLines * Size / 2;
    if (setup.same_level != 0 && bits.union_bits == 1u << kCentre) {
      // No query of this group of places (kPositionGroup) has a neighbour except itself, which is frequent in
      // sparse clouds. Only the entry of the centre is written then.
      i32 rows[] = {at.query};
      if (job.row_ids != nullptr) name_rows(job.row_ids, rows);
      if (at.is_there) job.ordered_rows[kCentre * job.ordered_stride + at.place] = rows[0];
      return;
    }
  }
  const Neighbours<Ndim> neighbours(setup, at.query);
  const auto window = neighbours.template window<Size, true>(bits.own, blocks);
  i32* to = job.ordered_rows + at.place;
  MINUET_UNROLL
  for (i32 line = 0; line < kLines; ++line, to += Size * job.ordered_stride) {
    if ((bits.union_bits >> line * Size & ((1u << Size) - 1)) == 0) continue;
    LineVoxels found = window.line(setup, line);
    order_line(job, at, found, bits.union_bits >> line * Size, Size, to);
  }
}

/// Writes the ordered rows of a place (OrderedPlace) whose window (Window) has another size than 2 or 3 on
/// all axes.
template <i32 Ndim, i32 Threads>
MINUET_DEVICE void order_window(const ViewJob& job, const OrderedPlace& at,
                                const NeighbourSearch<Ndim>& setup, OrderedMasks<Threads>& masks,
                                WindowBlocks<Ndim, Threads>& blocks) {
  MaskBits<Threads> mask(masks, job, at);
  const auto window = Neighbours<Ndim>(setup, at.query).template window<0, true>(~0u, blocks);
  const i32 length = setup.kernel_size[Ndim - 1];
  i32* to = job.ordered_rows + at.place;
  for (i32 line = 0; line < setup.volume / length; ++line, to += length * job.ordered_stride) {
    const auto bits = mask.take(length);
    if (bits.union_bits == 0) continue;
    LineVoxels found = window.line(setup, line);
    order_line(job, at, found, bits.union_bits, length, to);
  }
}

/// Writes the ordered rows of a place (OrderedPlace), and looks up each offset by itself.
template <i32 Ndim, i32 Threads>
MINUET_DEVICE void order_each_offset(const ViewJob& job, const OrderedPlace& at,
                                     const NeighbourSearch<Ndim>& setup, OrderedMasks<Threads>& masks) {
  MaskBits<Threads> mask(masks, job, at);
  const Neighbours<Ndim> neighbours(setup, at.query);
  VoxelFinder<Ndim> finder(setup);
  i32* to = job.ordered_rows + at.place;
  for (i32 k = 0; k < setup.volume; ++k, to += job.ordered_stride) {
    const auto bits = mask.take(1);
    if (bits.union_bits == 0) continue;
    i32 row[] = {bits.own != 0 ? neighbours.at_offset(finder, k) : -1};
    if (job.row_ids != nullptr) name_rows(job.row_ids, row);
    if (at.is_there) *to = row[0];
  }
}

/// Writes the ordered rows of a place (OrderedPlace) in a view whose rows are looked up
/// (RowSource::Neighbours).
template <i32 Ndim, i32 Threads>
MINUET_DEVICE void order_neighbours(const ViewJob& job, const OrderedPlace& at,
                                    const NeighbourSearch<Ndim>& setup, OrderedMasks<Threads>& masks,
                                    WindowBlocks<Ndim, Threads>& blocks) {
  if constexpr (Ndim < 4) {
    if (setup.window_size == 3) return order_cube<Ndim, 3>(job, at, setup, masks, blocks);
    if (setup.window_size == 2) return order_cube<Ndim, 2>(job, at, setup, masks, blocks);
    if (setup.is_window != 0) return order_window(job, at, setup, masks, blocks);
  }
  order_each_offset(job, at, setup, masks);
}

/// Writes the ordered rows of a place (OrderedPlace) in a view with RowSource::Children. Its query is a
/// coarser voxel, and all its rows are in one block (VoxelBlock) of the finer level.
template <i32 Ndim, i32 Threads>
MINUET_DEVICE void order_children(const ViewJob& job, const OrderedPlace& at,
                                  const NeighbourSearch<Ndim>& setup, OrderedMasks<Threads>& masks) {
  const WordPair pair = read_pair_if(at.is_there, setup.sources.blocks + fresh(job.rows + at.query));
  const FoundBlock block{pair.first, static_cast<i32>(pair.second)};
  const i32 first_place = child_place<Ndim>(job.geometry, place_of_row(setup.queries, at.query), 0);
  const typename OrderedMasks<Threads>::Word bits = masks.put(job, at, 0);
  i32* const to = job.ordered_rows + at.place;
  for (u32 left = bits.union_bits; left != 0; left &= left - 1) {
    const i32 k = lowest_bit(left);
    i32 rows[] = {-1};
    if ((bits.own >> k & 1u) != 0) rows[0] = block.row(first_place + setup.child_places[k]);
    if (job.row_ids != nullptr) name_rows(job.row_ids, rows);
    if (at.is_there) to[k * job.ordered_stride] = rows[0];
  }
}

/// Writes the ordered rows of a place (OrderedPlace) in a view with RowSource::Parents. Its query is a
/// finer voxel, which has only one row, that of the coarser voxel that contains it.
template <i32 Threads>
MINUET_DEVICE void order_parent(const ViewJob& job, const OrderedPlace& at, OrderedMasks<Threads>& masks) {
  i32 rows[] = {fresh(job.rows + at.query)};
  if (job.row_ids != nullptr) name_rows(job.row_ids, rows);
  const typename OrderedMasks<Threads>::Word bits = masks.put(job, at, 0);
  i32* const to = job.ordered_rows + at.place;
  for (u32 left = at.is_there ? bits.union_bits : 0; left != 0; left &= left - 1) {
    const i32 k = lowest_bit(left);
    to[k * job.ordered_stride] = (bits.own >> k & 1u) != 0 ? rows[0] : -1;
  }
}

template <OrderVoxelsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads, kOrderThreads /
                                                  S.threads) void order_voxels(MINUET_PARAMS(ViewsParams) p) {
  __shared__ ViewStarts starts;
  __shared__ NeighbourSearch<S.ndim> setup;
  __shared__ WindowBlocks<S.ndim, S.threads> window_blocks;
  // The launch right before this one is rank_masks, a launch of the sort, or order_rows (make_batch()). None
  // of them writes the numbers of queries or the index.
  find_view_starts<S.threads, true>(starts, p,
                                    [](const ViewJob& job) { return job.source != RowSource::Table; });
  JobIterator walk(starts.blocks);
  OrderedMasks<S.threads> masks;
  // Gives the index of the view (ViewJob) for which the search `setup` is prepared, or -1 before the first.
  i32 begun = -1;
  const auto begin = [&](i32 j) {
    const ViewJob& job = p.jobs[j];
    // The parents are stored in ViewJob::rows, so no search is prepared for them.
    if (begun != j && job.source != RowSource::Parents)
      begin_search<S.ndim, S.threads>(setup, job.geometry, *p.index, job.source_level, *p.index,
                                      job.query_level);
    begun = j;
  };
  const i64 blocks = starts.blocks[p.job_count];
  if (blockIdx.x < blocks) begin(walk.advance(blockIdx.x));
  follow_last_launch();
  // The views differ in how long a block of places takes, so each thread block takes blocks of all of them.
  for (i64 block = blockIdx.x; block < blocks; block += gridDim.x) {
    const i32 j = walk.advance(block);
    const ViewJob& job = p.jobs[j];
    begin(j);
    const OrderedPlace at = find_place(job, p.sorted + starts.queries[j], walk.inner(block) * S.threads);
    if (job.source == RowSource::Parents) {
      order_parent(job, at, masks);
    } else if (job.source == RowSource::Children) {
      order_children(job, at, setup, masks);
    } else {
      order_neighbours(job, at, setup, masks, window_blocks);
    }
  }
}

}  // namespace minuet
