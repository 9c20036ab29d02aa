// The kernel list_selected numbers the candidates that the rule keeps in their order, and stores each one's
// coordinates and where it came from in its new row, and the new row of each candidate. Rows past the
// capacity are not stored. It stores the number of kept candidates too. Each thread handles one candidate.
#pragma once

#include "kernels_templates/core/tile_sums.h"
#include "kernels_templates/select/candidate.h"

namespace minuet {

/// Returns true if the dense tensor has a number that is not 0 in the cell of a candidate. Neighbouring
/// threads read neighbouring cells of a channel, if the channels come first.
template <DType T, i32 Ndim>
MINUET_DEVICE bool has_nonzero(const SelectParams& p, i64 candidate) {
  i32 coordinate[1 + Ndim];
  const i64 cell = find_cell_of_grid<Ndim>(p.candidates.grid, static_cast<i32>(candidate), coordinate);
  const i64 first = coordinate[0] * p.item_step + cell * p.cell_step;
  bool found = false;
  for (i64 c = 0; c < p.channels && !found; ++c)
    found = is_not_zero<T>(fresh_bits<T>(p.dense, first + c * p.channel_step));
  return found;
}

template <ListSelectedSpec S>
MINUET_DEVICE bool keeps(const SelectParams& p, i64 candidate) {
  static_assert(S.rule != SelectRule::Best, "mark_best writes a mask: list the best candidates with Mask");
  static_assert(S.rule != SelectRule::NonZero || S.source == SelectSource::Cells,
                "rows have no dense tensor");
  if constexpr (S.rule == SelectRule::All) {
    return true;
  } else if constexpr (S.rule == SelectRule::Mask) {
    return fresh(p.mask + candidate) != 0;
  } else if constexpr (S.rule == SelectRule::Above) {
    const u32 bits = score_bits_of<S.io, S.source>(p, candidate);
    return is_above(bits_of(float_of_bits<S.io>(bits)), bits_of(p.threshold));
  } else {
    static_assert(S.rule == SelectRule::NonZero, "the kernel does not know this rule");
    return has_nonzero<S.io, S.ndim>(p, candidate);
  }
}

template <ListSelectedSpec S>
MINUET_DEVICE void store_selected(const SelectParams& p, i64 candidate, i64 row) {
  i32 coordinate[1 + S.ndim];
  if (!find_coordinate<S.ndim, S.source>(p.candidates, candidate, coordinate))
    atomicOr(p.status, kStatusTooFar);
  MINUET_UNROLL
  for (i32 f = 0; f <= S.ndim; ++f) p.selected[row * (1 + S.ndim) + f] = coordinate[f];
  if (p.sources != nullptr) p.sources[row] = static_cast<i32>(candidate);
  if (p.parents != nullptr)
    p.parents[row] = static_cast<i32>(row_of_candidate<S.source>(p.candidates, candidate));
}

template <ListSelectedSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void list_selected(MINUET_PARAMS(SelectParams) p) {
  follow_last_launch();
  const i32 tile = static_cast<i32>(blockIdx.x);
  const i64 count = count_candidates<S.source>(p.candidates), begin = i64{tile} * S.threads;
  const i64 candidate = begin + threadIdx.x;
  if (tile == 0 && threadIdx.x == 0 && p.candidates.row_count != nullptr) {
    const i64 rows = fresh(p.candidates.row_count);
    if (rows < 0 || rows > p.candidates.most_rows) atomicOr(p.status, kStatusPastCapacity);
  }
  const bool is_kept = candidate < count && keeps<S>(p, candidate);
  i64 row = -1;
  if (begin < count || tile == 0) {
    const u32 before = sum_before<S.threads>(is_kept ? 1u : 0u, p.tiles, tile);
    if (is_kept) row = before;
    if (candidate + 1 == count || (count == 0 && candidate == 0))
      *p.total = static_cast<i32>(before + (is_kept ? 1u : 0u));
  }
  if (p.places != nullptr && candidate < p.candidates.most) p.places[candidate] = static_cast<i32>(row);
  if (row >= 0 && row < p.capacity) store_selected<S>(p, candidate, row);
}

}  // namespace minuet
