// Implements the searches of MapStep for kernel maps whose offsets are not those of a box but a list
// (MapView::offsets). Each launch searches a part of the list (ListedOffsets).
#include <algorithm>

#include "runtime/cuda/map_step.h"

namespace minuet {
namespace {

/// Returns the part of the map's list that begins with the offset number `first`.
ListedOffsets listed_offsets(const MapView& map, i32 first) {
  ListedOffsets part = {};
  part.first = first;
  part.count = std::min(map.geometry.volume - first, kMostListedOffsets);
  for (i32 k = 0; k < part.count; ++k) {
    for (i32 a = 0; a < map.geometry.ndim; ++a)
      part.at[k][a] = map.offsets[first + k][a] * map.geometry.step[a];
  }
  return part;
}

}  // namespace

llvm::Error MapStep::search_listed_keys(const SearchRequest& request) {
  SearchListedKeysParams params = {};
  params.source_keys = request.sources.keys;
  params.source_count = request.sources.count;
  params.query_keys = request.queries.keys;
  params.query_count = request.queries.count;
  params.layout = request.layout;
  params.map = request.map->rows;
  for (i32 first = 0; first < request.map->geometry.volume; first += kMostListedOffsets) {
    params.offsets = listed_offsets(*request.map, first);
    MINUET_TRY(launcher_.launch_stride(kernels(limits_.key()).search_listed_keys,
                                       params.offsets.count * request.queries.capacity, params));
  }
  return llvm::Error::success();
}

llvm::Error MapStep::search_listed_voxels(const IndexedSearch& search) {
  const MapView& map = *search.map;
  if (map.rows == nullptr || map.masks == nullptr) {
    return make_error(StatusCode::Internal,
                      "a kernel map with a list of {0} offsets has no memory for its rows or masks",
                      map.geometry.volume);
  }
  SearchListedVoxelsParams params = {};
  params.search.queries = search.queries.side;
  params.search.sources = search.sources.side;
  params.search.query_count = search.queries.count;
  params.search.geometry = map.geometry;
  params.search.rows = map.rows;
  params.search.masks = map.masks;
  params.search.counts = reinterpret_cast<u32*>(map.counts);
  const i32 threads = map32_.choice.search_listed_voxels.threads;
  const i64 blocks =
      stride_grid(search.queries.capacity, threads, launcher_.multiprocessors(), kSearchThreads / threads);
  for (i32 first = 0; first < map.geometry.volume; first += kMostListedOffsets) {
    params.offsets = listed_offsets(map, first);
    MINUET_TRY(launcher_.launch(map32_.search_listed_voxels, blocks, params));
  }
  return llvm::Error::success();
}

}  // namespace minuet
