// The kernel pool_items pools the rows of each item in each piece of the list
// (shared/global_pool_kernels.h). It writes the result of an item that lies in one piece, and otherwise
// stores a partial result for join_items.
//
// A block handles the vectors of a chunk of the channels, in one piece after the other. Its threads are lanes
// of `width` threads, one for each vector. A lane reads every `lanes`-th row of an item, several of them at
// once, so that many loads are in flight. Then the block combines the lanes.
#pragma once

#include "kernels_templates/pool/item_rows.h"

namespace minuet {

/// Combines the rows at `first`, `first` + Lanes, ... of the list, before `end`.
template <PoolItemsSpec S, i32 Lanes, i32 Elements>
MINUET_HD void pool_rows(const PoolItemsParams& p, i64 first, i64 end, i32 v, float (&values)[Elements]) {
  constexpr i32 kAtOnce = 8;
  for (i64 position = first; position < end; position += kAtOnce * Lanes) {
    i32 rows[kAtOnce];
    Vector<S.vector_bytes> data[kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 at = position + u * Lanes;
      rows[u] = p.rows != nullptr ? load_row_if(at < end, p.rows + at) : at < end ? static_cast<i32>(at) : -1;
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      const i64 byte = rows[u] * p.input_ld * dtype_bytes(S.io) + v * S.vector_bytes;
      data[u] = load_vector_if<S.vector_bytes>(rows[u] >= 0, p.input, byte);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < kAtOnce; ++u) {
      if (rows[u] < 0) continue;
      float inputs[Elements];
      to_floats<S.io>(data[u], inputs);
      MINUET_UNROLL
      for (i32 e = 0; e < Elements; ++e) values[e] = combine<S.reduction>(values[e], inputs[e]);
    }
  }
}

template <PoolItemsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void pool_items(MINUET_PARAMS(PoolItemsParams) p) {
  constexpr ItemTile kTile = item_tile(S);
  constexpr i32 kElements = S.vector_bytes / dtype_bytes(S.io);
  static_assert(S.channels % kElements == 0, "vector_bytes must divide a row");
  const ItemList list(p);
  const i64 all = list.rows(), each = rows_of_piece(all), works = pieces_of(all) * kTile.chunks;
  const i32 lane = static_cast<i32>(threadIdx.x) / kTile.width,
            own = static_cast<i32>(threadIdx.x) % kTile.width;
  for (i64 work = blockIdx.x; work < works; work += gridDim.x) {
    const i64 piece = work / kTile.chunks, first = piece * each;
    const i64 last = first + each < all ? first + each : all;
    const i32 v = static_cast<i32>(work % kTile.chunks) * kTile.width + own;
    const bool is_there = v < kTile.vectors && lane < kTile.lanes;
    i64 item = list.find(first);
    for (i64 position = first; position < last;) {
      const i64 begin = list.begin(item), item_end = list.end(item), end = item_end < last ? item_end : last;
      float values[kElements];
      MINUET_UNROLL
      for (i32 e = 0; e < kElements; ++e) values[e] = neutral<S.reduction>();
      if (is_there) pool_rows<S, kTile.lanes>(p, position + lane, end, v, values);
      combine_lanes_of_rows<S.reduction, kTile.width, kTile.lanes>(lane, own, values);
      if (is_there && lane == 0) {
        if (begin >= first && item_end <= last) {
          write_item<S>(p, item, v, item_end - begin, values);
        } else {
          const i64 slot = 2 * piece + (begin < first ? 0 : 1);
          store_floats<kElements>(p.partials, slot * S.channels + v * kElements, values);
        }
      }
      position = end;
      // Items without rows are rare, so the next one usually has the next row.
      if (position < last && list.end(++item) <= position) item = list.find(position);
    }
  }
}

}  // namespace minuet
