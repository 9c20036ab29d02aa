// Makes the parts of a kernel map that ops read besides its rows: bit masks of the existing neighbours,
// orders that bring similar masks together, and rows in the transposed direction.
#include "runtime/cuda/map_step.h"
#include "runtime/cuda/view_workspace.h"

namespace minuet {
namespace {

// This limit for the kernel make_masks is low, because each block adds its counts to global memory.
constexpr i64 kMaskBlocksPerMultiprocessor = 8;
// The grid of the kernel rank_masks has only as many blocks as run at once, because every block first makes
// lookup tables for its views (RankTables).
constexpr i64 kRankBlocksPerMultiprocessor = 2;

ViewJob job_of(const ViewRequest& request) {
  const NeighbourView& view = request.view();
  const IndexedSides& index = request.map->index;
  ViewJob job = {};
  job.query_count = request.output_coords().count;
  job.geometry = request.map->geometry;
  job.source = request.row_source();
  if (job.source == RowSource::Table) {
    job.rows = view.rows;
    job.forward_rows = request.transposed ? request.map->rows : nullptr;
    job.forward_count = request.queries.count;
  } else {
    job.rows = request.transposed ? index.parents : index.children;
    job.query_level = request.transposed ? index.source_level : index.query_level;
    job.source_level = request.transposed ? index.query_level : index.source_level;
  }
  if (!request.offsets) return job;
  job.masks = view.masks;
  job.order = view.order;
  job.ordered_rows = view.ordered_rows;
  job.ordered_masks = view.ordered_masks;
  job.ordered_stride = ordered_row_stride(request.output_coords().capacity);
  job.block_masks = view.block_masks;
  job.block_orders = view.block_orders;
  job.query_ids = request.output_coords().caller_row;
  job.row_ids = request.others().caller_row;
  job.has_masks = request.has_masks ? 1 : 0;
  job.ranked = request.offsets->ranked;
  std::copy_n(request.offsets->offsets, kMostRankedOffsets, job.offsets);
  return job;
}

/// Assigns a range of sort keys to each view that gets an order, and returns the number of all sort keys.
u32 place_ranks(ViewsParams& params, i64 queries) {
  const llvm::MutableArrayRef<ViewJob> jobs(params.jobs, static_cast<std::size_t>(params.job_count));
  std::vector<i32> ranked;
  for (const ViewJob& job : jobs) {
    if (job.order) ranked.push_back(job.ranked);
  }
  const std::vector<MaskRanks> ranks = share_ranks(ranked, queries);
  auto next = ranks.begin();
  u32 keys = 0;
  for (ViewJob& job : jobs) {
    if (!job.order) continue;
    job.ranks = *next++;
    job.first_key = keys;
    keys += job.ranks.count;
  }
  return keys;
}

}  // namespace

llvm::Error MapStep::make_masks(const Coords& queries, i32 volume, const NeighbourView& view, i32* counts) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  if (queries.capacity <= 0) return llvm::Error::success();
  const MakeMasksSpec& spec = map32_.choice.make_masks;
  return launcher_.launch(
      map32_.make_masks,
      stride_grid(queries.capacity, spec.threads, launcher_.multiprocessors(), kMaskBlocksPerMultiprocessor),
      MakeMasksParams{view.rows, queries.count, volume, view.masks, reinterpret_cast<u32*>(counts)});
}

i64 MapStep::view_workspace_bytes(llvm::ArrayRef<ViewRequest> requests) const {
  return minuet::view_workspace_bytes(map32_.choice.rank_pass, requests);
}

llvm::Error MapStep::make_views(llvm::ArrayRef<ViewRequest> requests, void* workspace) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  for (std::size_t views = 0; !requests.empty(); requests = requests.drop_front(views)) {
    views = view_batch(requests);
    MINUET_TRY(make_batch(requests.take_front(views), static_cast<char*>(workspace)));
  }
  return llvm::Error::success();
}

llvm::Error MapStep::make_batch(llvm::ArrayRef<ViewRequest> batch, char* workspace) {
  ViewsParams params = {};
  i64 preset = 0, forward_queries = 0, from_tables = 0, looked_up = 0;
  for (const ViewRequest& request : batch) {
    if (!request.is_found()) {
      return make_error(
          StatusCode::Internal,
          "neighbour rows are needed that were never computed, and the kernel map has no index to look them "
          "up");
    }
    const ViewJob job = job_of(request);
    params.jobs[params.job_count++] = job;
    const i64 ordered = request.offsets ? request.output_coords().capacity : 0;
    (job.source == RowSource::Table ? from_tables : looked_up) += ordered;
    if (job.source != RowSource::Table) params.index = request.map->index.index;
    if (!job.forward_rows) continue;
    preset += job.geometry.volume * request.sources.capacity;
    forward_queries += request.queries.capacity;
  }
  if (preset > 0) MINUET_TRY(launcher_.launch_stride(map32_.preset_rows, preset, params));
  if (forward_queries > 0) {
    MINUET_TRY(launcher_.launch_stride(map32_.transpose_rows, forward_queries, params));
  }
  const i64 capacity = from_tables + looked_up;
  if (capacity <= 0) return llvm::Error::success();
  const MapKernels& kernels = map32_;
  const ViewWorkspace work = ViewWorkspace::place(map32_.choice.rank_pass, capacity, workspace);
  params.keys = work.keys[0];
  params.queries = work.rows[0];
  params.key_count = work.key_count;
  params.sort_state = work.state_words;
  params.sort_state_words = work.state_count;
  const i32 key_bits = bit_width_of(place_ranks(params, capacity) - 1);
  MINUET_TRY(launcher_.launch(kernels.rank_masks,
                              stride_grid(capacity, kernels.choice.rank_masks.threads,
                                          launcher_.multiprocessors(), kRankBlocksPerMultiprocessor),
                              params));
  const SortMemory memory{
      {work.keys[0], work.keys[1]}, {work.rows[0], work.rows[1]}, work.sort_state(), work.tiles};
  i32 half = 0;
  MINUET_TRY(enqueue_sort(launcher_, map32_.rank_sort(capacity), {work.key_count, capacity, 0, key_bits},
                          memory, half));
  params.sorted = work.rows[half];
  if (from_tables > 0) MINUET_TRY(launcher_.launch_stride(map32_.order_rows, from_tables, params));
  if (looked_up > 0) {
    // The kernel order_voxels reads the index and the counts of rows early (core/early_loads.h), which is
    // possible because none of the launches since rank_masks writes them.
    const i64 blocks =
        stride_grid(looked_up, kernels.choice.order_voxels.threads, launcher_.multiprocessors(),
                    kOrderThreads / kernels.choice.order_voxels.threads);
    MINUET_TRY(launcher_.launch(kernels.order_voxels, blocks, params));
  }
  return launcher_.launch(map32_.order_blocks, i64{params.job_count} * kBlockHeightCount, params);
}

}  // namespace minuet
