#include "runtime/cpu/view_ops.h"

#include <algorithm>
#include <array>
#include <atomic>

namespace minuet {

void make_masks_cpu(ThreadPool& pool, i64 queries, i32 volume, const NeighbourView& view, i32* counts) {
  const i64 chunks = cpu_chunks(queries);
  pool.run(mask_words(volume) * chunks, [&](i64 task, i32) {
    const i64 word = task / chunks, first = task % chunks * kCpuChunk;
    const i64 end = std::min(queries, first + kCpuChunk);
    u32* const masks = view.masks + word * queries;
    std::fill(masks + first, masks + end, 0u);
    for (i32 k = static_cast<i32>(32 * word); k < std::min<i64>(volume, 32 * word + 32); ++k) {
      const i32* const rows = view.rows + k * queries;
      i32 count = 0;
      for (i64 q = first; q < end; ++q) {
        const u32 hit = rows[q] >= 0 ? 1u : 0u;
        masks[q] |= hit << k % 32;
        count += static_cast<i32>(hit);
      }
      if (counts) __atomic_fetch_add(counts + k, count, __ATOMIC_RELAXED);
    }
  });
}

namespace {

void order_queries(ThreadPool& pool, const MapScratch& scratch, i64 queries, const OffsetOrder& offsets,
                   const NeighbourView& view) {
  PingPong<u32> keys{static_cast<u32*>(scratch.keys[0]), static_cast<u32*>(scratch.keys[1])};
  PingPong<u32> rows{scratch.rows[0], scratch.rows[1]};
  const MaskRanks ranks = share_ranks(offsets.ranked, queries).front();
  std::array<RankInterval, 256> of_byte;
  for (u32 byte = 0; byte < of_byte.size(); ++byte) of_byte[byte] = byte_interval(byte, ranks.share);
  pool.run(cpu_chunks(queries), [&](i64 chunk, i32) {
    for (i64 q = chunk * kCpuChunk; q < std::min(queries, (chunk + 1) * kCpuChunk); ++q) {
      const u32 code = mask_code(view.masks, queries, q, offsets.offsets, offsets.ranked);
      keys.now[q] = rank_of_code(code, ranks, [&](u32 byte) { return of_byte[byte]; });
      rows.now[q] = static_cast<u32>(q);
    }
  });
  radix_sort(pool, queries, bit_width_of(ranks.count - 1), keys, rows, scratch.bins);
  std::copy_n(rows.now, queries, view.order);
}

void order_rows(ThreadPool& pool, const Coords& coords, i32 volume, const NeighbourView& view) {
  const i64 queries = *coords.count, stride = ordered_row_stride(coords.capacity);
  pool.run(volume + mask_words(volume), [&](i64 k, i32) {
    const auto reorder = [&](const auto* from, auto* to) {
      for (i64 i = 0; i < queries; ++i) to[i] = from[view.order[i]];
    };
    if (k < volume) {
      reorder(view.rows + k * queries, view.ordered_rows + k * stride);
    } else {
      reorder(view.masks + (k - volume) * queries, view.ordered_masks + (k - volume) * stride);
    }
  });
}

void transpose_rows(ThreadPool& pool, i64 sources, i64 queries, const MapView& map) {
  pool.run(map.geometry.volume, [&](i64 k, i32) {
    i32* const transposed = map.transposed.rows + k * sources;
    std::fill_n(transposed, sources, -1);
    for (i64 q = 0; q < queries; ++q) {
      const i32 source = map.rows[k * queries + q];
      if (source >= 0) transposed[source] = static_cast<i32>(q);
    }
  });
}

}  // namespace

MapScratch place_order_scratch(llvm::ArrayRef<ViewRequest> requests, void* workspace) {
  MapLimits limits;
  limits.key_bits = 32;
  for (const ViewRequest& request : requests) {
    if (request.offsets) limits.capacity = std::max(limits.capacity, request.output_coords().capacity);
  }
  return limits.capacity > 0 ? place_map_scratch(limits, workspace) : MapScratch();
}

void make_view_cpu(ThreadPool& pool, const MapScratch& scratch, const ViewRequest& request) {
  if (request.transposed) {
    transpose_rows(pool, *request.sources.count, *request.queries.count, *request.map);
  }
  if (!request.offsets) return;
  const NeighbourView& view = request.view();
  const i64 queries = *request.output_coords().count;
  const i32 volume = request.map->geometry.volume;
  if (!request.has_masks) make_masks_cpu(pool, queries, volume, view, nullptr);
  order_queries(pool, scratch, queries, *request.offsets, view);
  order_rows(pool, request.output_coords(), volume, view);
}

}  // namespace minuet
