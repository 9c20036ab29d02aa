// The kernel join_items combines the partial results of each item that lies in several pieces of the list
// (pool_items), and writes zeros to items without rows and to rows that pad the output. A block handles some
// vectors of one output row. Each of its lanes combines every `lanes`-th partial result, and then the block
// combines the lanes.
#pragma once

#include "kernels_templates/pool/item_rows.h"

namespace minuet {

/// Combines the partial results of the pieces piece, piece + Lanes, ... of an item whose rows are those from
/// `begin` to `end` - 1.
template <JoinItemsSpec S, i32 Lanes, i32 Elements>
MINUET_HD void join_pieces(const PoolItemsParams& p, i64 each, i64 begin, i64 end, i64 lane, i32 v,
                           float (&values)[Elements]) {
  constexpr i32 kAtOnce = 4;
  const i64 last = (end - 1) / each;
  for (i64 piece = begin / each + lane; piece <= last; piece += kAtOnce * Lanes) {
    float partials[kAtOnce][Elements];
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 at = piece + u * Lanes, slot = 2 * at + (begin < at * each ? 0 : 1);
      load_floats_if<Elements>(at <= last, p.partials, slot * S.channels + v * Elements, partials[u]);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      if (piece + u * Lanes > last) continue;
      MINUET_UNROLL
      for (i32 e = 0; e < Elements; ++e) values[e] = combine<S.reduction>(values[e], partials[u][e]);
    }
  }
}

template <JoinItemsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void join_items(MINUET_PARAMS(PoolItemsParams) p) {
  constexpr ItemTile kTile = item_tile(S);
  constexpr i32 kElements = S.vector_bytes / dtype_bytes(S.io);
  const ItemList list(p);
  const i64 each = rows_of_piece(list.rows());
  const i64 works = (p.pads_output != 0 ? p.output_rows : list.items()) * kTile.chunks;
  const i32 lane = static_cast<i32>(threadIdx.x) / kTile.width,
            own = static_cast<i32>(threadIdx.x) % kTile.width;
  for (i64 work = blockIdx.x; work < works; work += gridDim.x) {
    const i64 item = work / kTile.chunks;
    const i32 v = static_cast<i32>(work % kTile.chunks) * kTile.width + own;
    const bool is_there = v < kTile.vectors && lane < kTile.lanes, has_item = item < list.items();
    const i64 begin = has_item ? list.begin(item) : 0, end = has_item ? list.end(item) : 0;
    if (begin == end) {
      const i64 byte = item * p.output_ld * dtype_bytes(S.io) + v * S.vector_bytes;
      if (is_there && lane == 0) store_vector(p.output, byte, zero_vector<S.vector_bytes>());
      continue;
    }
    if (begin / each == (end - 1) / each) continue;  // pool_items has written this item.
    float values[kElements];
    MINUET_UNROLL
    for (i32 e = 0; e < kElements; ++e) values[e] = neutral<S.reduction>();
    if (is_there) join_pieces<S, kTile.lanes>(p, each, begin, end, lane, v, values);
    combine_lanes_of_rows<S.reduction, kTile.width, kTile.lanes>(lane, own, values);
    if (is_there && lane == 0) write_item<S>(p, item, v, end - begin, values);
  }
}

}  // namespace minuet
