// The further views of kernel maps: masks, order, the transposed direction.
#include "codegen/offset_order.h"
#include "runtime/cuda/map_step.h"

namespace minuet {
namespace {

constexpr i64 kMaskBlocksPerMultiprocessor = 8;  // each adds its counts to those in global memory

}  // namespace

llvm::Error MapStep::make_masks(const Coords& queries, i32 volume, const NeighbourView& view, i32* counts) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  if (counts) MINUET_TRY(launcher_.fill(counts, 0, volume));
  if (queries.capacity <= 0) return llvm::Error::success();
  const MakeMasksSpec& spec = map32_.choice.make_masks;
  return launcher_.launch(
      map32_.make_masks,
      stride_grid(queries.capacity, spec.threads, launcher_.multiprocessors(), kMaskBlocksPerMultiprocessor),
      MakeMasksParams{view.rows, queries.count, volume, view.masks, reinterpret_cast<u32*>(counts)});
}

llvm::Error MapStep::order_queries(const Coords& queries, const KernelGeometry& geometry,
                                   const NeighbourView& view) {
  MINUET_TRY(check_sort(queries.capacity));
  MINUET_TRY(launcher_.mark(Stage::Map));
  if (queries.capacity <= 0) return llvm::Error::success();
  const MapKernels& kernels = this->kernels(limits_.key());
  const OffsetOrder order = order_offsets(geometry);
  // The sort goes back and forth: it begins where it ends in the view.
  const i32 last = radix_passes(order.ranked) % 2;
  SortMemory memory{{work_.keys[0], work_.keys[1]}, {}, work_.sort_state(next_sort_++), work_.sort_tiles};
  memory.rows[last] = reinterpret_cast<u32*>(view.order);
  memory.rows[1 - last] = work_.rows[0];
  RankMasksParams ranks = {};
  ranks.masks = view.masks;
  ranks.query_count = queries.count;
  ranks.ranked = order.ranked;
  std::copy_n(order.offsets, kMostRankedOffsets, ranks.offsets);
  ranks.keys = static_cast<u32*>(memory.keys[0]);
  ranks.queries = memory.rows[0];
  MINUET_TRY(launcher_.launch_stride(kernels.rank_masks, queries.capacity, ranks));
  i32 half = 0;
  return enqueue_sort(launcher_, kernels.rank_sort(queries.capacity),
                      {queries.count, queries.capacity, 0, order.ranked}, memory, half);
}

llvm::Error MapStep::order_rows(const Coords& queries, i32 volume, const NeighbourView& view) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  if (queries.capacity <= 0) return llvm::Error::success();
  return launcher_.launch_stride(map32_.order_rows, (volume + mask_words(volume)) * queries.capacity,
                                 OrderRowsParams{view.rows, view.masks, view.order, queries.count, volume,
                                                 queries.capacity, view.ordered_rows, view.ordered_masks});
}

llvm::Error MapStep::transpose_rows(const Coords& sources, const Coords& queries, const MapView& map) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  const i32 volume = map.geometry.volume;
  MINUET_TRY(launcher_.fill(map.transposed.rows, ~0u, volume * sources.capacity));
  if (queries.capacity <= 0) return llvm::Error::success();
  return launcher_.launch_stride(
      map32_.transpose_rows, volume * queries.capacity,
      TransposeRowsParams{map.rows, queries.count, sources.count, volume, map.transposed.rows});
}

}  // namespace minuet
