// This file copies the numbers of the input rows that a warp reads into shared memory, before the first step
// of the reduction. The warp starts all copies together. It therefore waits for global memory once, and not
// again at each kernel offset.
#pragma once

#include "kernels_templates/core/async_copy.h"
#include "kernels_templates/fused/thread_place.h"

namespace minuet {

/// Returns the row numbers that this warp has staged. Their shape is [volume][8 * row_tiles]. Entries of
/// offsets that the warp does not process are undefined. A persistent block has row numbers of two tiles, and
/// behind those of the last offset the numbers of the output rows.
template <FusedSpec S>
MINUET_DEVICE i32* staged_rows(i32 which = 0) {
  constexpr i32 kTiles = S.persistent ? 2 : 1;
  return reinterpret_cast<i32*>(dynamic_shared() + fused_rows_begin(S)) +
         (static_cast<i32>(threadIdx.x / 32) * kTiles + which) * fused_warp_rows(S);
}

/// Starts to copy the row numbers of the warp's queries at the offsets in `bits`, which is word `word` of the
/// offsets that the warp processes. The queries are consecutive columns of FusedParams::rows from column
/// `first` on, and the entries are aligned to 16 bytes.
template <FusedSpec S>
MINUET_DEVICE void stage_pieces(const FusedParams& p, i32 first, i32 word, u32 bits, i32 which) {
  constexpr i32 kRows = 8 * S.row_tiles, kPieces = kRows / 4;
  constexpr i32 kOffsets = S.volume < 32 ? S.volume : 32;
  MINUET_UNROLL
  for (i32 i = 0; i < (kOffsets * kPieces + 31) / 32; ++i) {
    const i32 item = i * 32 + static_cast<i32>(threadIdx.x % 32), part = item % kPieces * 4;
    if ((bits >> item / kPieces & 1u) == 0) continue;
    const i32 offset = word * 32 + item / kPieces;
    async_copy<16>(staged_rows<S>(which) + offset * kRows + part,
                   p.rows + i64{offset} * p.row_stride + first + part);
  }
}

/// Does what stage_pieces() does for queries whose columns are anywhere, entry by entry. These are loads and
/// not copies, because a copy of 4 bytes goes through the L1 cache (core/early_loads.h).
template <FusedSpec S>
MINUET_DEVICE void stage_entries(const FusedParams& p, const i32 (&columns)[S.row_tiles], i32 word, u32 bits,
                                 i32 which) {
  const i32 lane = static_cast<i32>(threadIdx.x % 32);
  for (i32 first = 0; first < 32 && bits >> first != 0; first += 4) {
    const bool present = (bits >> (first + lane % 4) & 1u) != 0;
    const i32 offset = word * 32 + first + lane % 4;
    i32 rows[S.row_tiles];
    MINUET_UNROLL
    for (i32 n = 0; n < S.row_tiles; ++n)
      rows[n] = load_view_if<S>(present, p.rows + i64{offset} * p.row_stride + columns[n]);
    MINUET_UNROLL
    for (i32 n = 0; n < S.row_tiles; ++n) {
      if (present) staged_rows<S>(which)[(offset * S.row_tiles + n) * 8 + lane / 4] = rows[n];
    }
  }
}

/// Starts to copy the numbers of the output rows of the warp's queries, behind the other row numbers.
template <FusedSpec S>
MINUET_DEVICE void stage_order(const FusedParams& p, const ThreadPlace<S>& place, i32 which) {
  constexpr i32 kRows = 8 * S.row_tiles;
  i32* const staged = staged_rows<S>(which) + S.volume * kRows;
  if (p.order == nullptr || place.lane >= kRows) return;
  const i32* const order = p.order + place.first;
  if (i64{place.first} + kRows <= place.count && reinterpret_cast<u64>(p.order) % 16 == 0) {
    if (place.lane < kRows / 4) async_copy<16>(staged + place.lane * 4, order + place.lane * 4);
  } else if (i64{place.first} + place.lane < place.count) {
    staged[place.lane] = load_view_if<S>(true, order + place.lane);
  }
}

/// Starts to copy the row numbers of the warp's queries at all offsets that the warp processes. `columns`
/// holds the columns of the lane's queries in FusedParams::rows.
template <FusedSpec S>
MINUET_DEVICE void stage_rows(const FusedParams& p, const ThreadPlace<S>& place, const FusedMasks<S>& masks,
                              const i32 (&columns)[S.row_tiles], i32 which = 0) {
  // Past the last query, an ordered view may have no entries.
  const bool are_consecutive =
      (p.ordered_views != 0 || p.order == nullptr) && i64{place.first} + 8 * S.row_tiles <= place.count;
  const bool are_aligned = (reinterpret_cast<u64>(p.rows) % 16 | static_cast<u32>(p.row_stride) % 4) == 0;
  for (i32 word = 0; word < FusedDepth<S>::kWords; ++word) {
    if (are_consecutive && are_aligned) {
      stage_pieces<S>(p, static_cast<i32>(place.first), word, masks.taken(word), which);
    } else {
      stage_entries<S>(p, columns, word, masks.taken(word), which);
    }
  }
  if constexpr (S.persistent) stage_order<S>(p, place, which);
  async_copy_commit();
}

/// Waits until the copies that stage_rows() has started have arrived. WeightRing::fill() must have been
/// called in between.
template <FusedSpec S>
MINUET_DEVICE void wait_for_rows() {
  constexpr i32 kLaterGroups = S.weights == WeightRoad::AsyncCopy ? S.stages / S.split - 1 : 0;
  async_copy_wait<kLaterGroups>();
  __syncwarp();
}

}  // namespace minuet
