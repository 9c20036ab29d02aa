// Implements the functions of MapStep that make coordinate sets and kernel maps with an index of voxels
// (kernels_templates/shared/voxel_index.h).
#include <algorithm>

#include "runtime/cuda/map_step.h"

namespace minuet {
namespace {

/// Holds the numbers of thread blocks of the kernels number_blocks and number_rows.
struct LevelTiles {
  i64 slots = 0, blocks = 0;
};

/// Lets a launch make the levels from `first` to `end` - 1.
LevelTiles set_levels(i32 first, i32 end, IndexParams& params) {
  LevelTiles tiles;
  params.first_level = first;
  params.end_level = end;
  for (i32 l = first; l < end; ++l) {
    const IndexLevel& level = params.description.level[l];
    tiles.slots += level.slots / kSlotTile;
    tiles.blocks += row_tiles(level);
    params.slot_tiles_end[l] = static_cast<u32>(tiles.slots);
    params.block_tiles_end[l] = static_cast<u32>(tiles.blocks);
  }
  return tiles;
}

}  // namespace

llvm::Error MapStep::find_bounds(const i32* coordinates, i64 count, const CloudState& cloud) {
  MINUET_TRY(launcher_.mark(Stage::Other));
  MINUET_TRY(launcher_.launch(map32_.begin_cloud, 1,
                              BeginCloudParams{nullptr, count, cloud.status, cloud.points, cloud.bounds}));
  return launcher_.launch_stride(map32_.find_bounds, std::max<i64>(count, 1),
                                 FindBoundsParams{coordinates, cloud.points, cloud.bounds});
}

llvm::Error MapStep::index_sets(const IndexSetsRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Sort));
  const MapKernels& kernels = map32_;
  const VoxelIndex& description = request.description;
  const i64 most = std::max<i64>(request.most, 1);
  ClearIndexParams clear = {};
  clear.index = description;
  clear.to = request.memory.index;
  clear.table = request.memory.table;
  clear.taken = request.memory.taken;
  clear.taken_words = request.memory.slots / 32;
  clear.sums = request.memory.sums;
  clear.sum_words = request.memory.sum_words;
  clear.source_row = request.source_row;
  clear.most_rows = std::min<i64>(request.most, description.level[0].capacity);
  clear.zeros = request.zeros;
  clear.zero_words = request.zero_words;
  clear.cloud = {request.given_count, request.most, request.status, request.points, nullptr};
  IndexParams params = {};
  params.coordinates = request.coordinates;
  params.points = request.points;
  params.index = request.memory.index;
  params.description = description;
  params.status = request.status;
  params.outside_status = request.outside_status;
  params.duplicate_status = request.refuses_duplicates ? kStatusDuplicate : 0;
  params.source_row = request.source_row;
  params.row_of = request.row_of;
  const bool all_of_points = request.sources.empty();
  if (all_of_points) {
    params.voided = request.voided;
    params.voided_words = static_cast<i32>(request.voided_words);
  }
  for (i32 l = 0; l < description.levels; ++l) params.counts[l] = request.counts[static_cast<std::size_t>(l)];
  const LevelTiles tiles = set_levels(0, request.levels_of_points(), params);
  MINUET_TRY(launcher_.launch_stride(
      kernels.clear_index, std::max({clear.taken_words, clear.sum_words, clear.most_rows, clear.zero_words}),
      clear));
  // The kernels mark_voxels and number_points read early what mark_blocks, or a kernel before it, has
  // written. No other launch may therefore come right before them.
  MINUET_TRY(launcher_.launch_stride(kernels.mark_blocks, most, params));
  MINUET_TRY(launcher_.launch(kernels.number_blocks, tiles.slots, params));
  MINUET_TRY(launcher_.launch_stride(kernels.mark_voxels, most, params));
  MINUET_TRY(launcher_.launch(kernels.number_rows, tiles.blocks, params));
  MINUET_TRY(launcher_.launch_stride(kernels.number_points, most, params));
  for (i32 l = request.levels_of_points(); l < description.levels; ++l) {
    MINUET_TRY(reach_level(request, l, params));
  }
  if (all_of_points || !request.voided) return llvm::Error::success();
  return void_failed(request.status, request.voided, request.voided_words);
}

/// Makes one level of an index from the rows of its parents, which are made already.
llvm::Error MapStep::reach_level(const IndexSetsRequest& request, i32 level, IndexParams params) {
  const MapKernels& kernels = map32_;
  params.rows_status = kStatusPastCapacity;
  const LevelTiles tiles = set_levels(level, level + 1, params);
  const auto launch_for_parents = [&](const auto& kernel) -> llvm::Error {
    for (const LevelSource& source :
         request.sources[static_cast<std::size_t>(level - request.levels_of_points())]) {
      params.source = source;
      const i64 rows = request.description.level[source.parent].capacity;
      MINUET_TRY(launcher_.launch_stride(kernel, std::max<i64>(rows, 1) * source.cells, params));
    }
    return llvm::Error::success();
  };
  MINUET_TRY(launch_for_parents(kernels.reach_blocks));
  MINUET_TRY(launcher_.launch(kernels.number_blocks, tiles.slots, params));
  MINUET_TRY(launch_for_parents(kernels.reach_voxels));
  return launcher_.launch(kernels.number_rows, tiles.blocks, params);
}

llvm::Error MapStep::search_index(llvm::ArrayRef<IndexedSearch> searches) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  for (const bool rows : {false, true}) {
    std::vector<IndexedSearch> some;
    for (const IndexedSearch& search : searches) {
      if (search.map->offsets.empty() && (search.map->rows != nullptr) == rows) some.push_back(search);
    }
    for (llvm::ArrayRef<IndexedSearch> left = some; !left.empty();) {
      const auto batch = left.take_front(kMostVoxelSearches);
      left = left.drop_front(batch.size());
      MINUET_TRY(search_batch(batch, rows ? map32_.search_rows : map32_.search_masks));
    }
  }
  for (const IndexedSearch& search : searches) {
    if (!search.map->offsets.empty()) MINUET_TRY(search_listed_voxels(search));
  }
  return llvm::Error::success();
}

llvm::Error MapStep::search_batch(llvm::ArrayRef<IndexedSearch> searches,
                                  const Kernel<SearchVoxelsParams>& kernel) {
  SearchVoxelsParams params = {};
  i64 queries = 0;
  for (const IndexedSearch& search : searches) {
    const MapView& map = *search.map;
    queries += search.queries.capacity;
    params.searches[params.search_count++] = {search.queries.side,
                                              search.sources.side,
                                              search.queries.count,
                                              map.geometry,
                                              map.rows,
                                              map.masks,
                                              reinterpret_cast<u32*>(map.counts),
                                              map.index.children,
                                              map.index.parents};
  }
  const i32 threads = map32_.choice.search_masks.threads;
  return launcher_.launch(
      kernel, stride_grid(queries, threads, launcher_.multiprocessors(), kSearchThreads / threads), params);
}

}  // namespace minuet
