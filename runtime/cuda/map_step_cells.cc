// Builds coordinate sets and kernel maps from the cells that the sets occupy
// (kernels_templates/shared/cell_index.h).
#include <algorithm>

#include "runtime/cuda/map_step.h"

namespace minuet {
namespace {

// This limit for the kernel clear_cells is low, because each block first computes the cell grids of all
// levels (coordinate sets).
constexpr i64 kClearBlocksPerMultiprocessor = 8;

}  // namespace

llvm::Error MapStep::index_sets(const IndexSetsRequest& request) {
  const BuildCoordsRequest& finest = request.finest;
  if (finest.most > limits_.capacity || static_cast<i32>(request.levels.size()) != limits_.indexed_sets) {
    return make_error(StatusCode::Internal,
                      "an index of {0} sets with {1} coordinates does not fit the Map step, which was begun "
                      "for {2} sets of at most {3}",
                      request.levels.size(), finest.most, limits_.indexed_sets, limits_.capacity);
  }
  MINUET_TRY(launcher_.mark(Stage::Sort));
  const MapKernels& kernels = this->kernels(limits_.key());
  const CellIndex& index = request.cells;
  const i64 most = std::max<i64>(finest.most, 1);
  ClearCellsParams clear = {};
  clear.layout = finest.layout;
  clear.levels = limits_.indexed_sets;
  clear.most_words = limits_.index_words;
  clear.index = index;
  clear.source_row = finest.source_row;
  clear.most_rows = std::min(most, request.levels[0].coords.capacity);
  clear.status = finest.status;
  clear.points = request.points;
  IndexCellsParams pass = {};
  pass.coordinates = finest.coordinates;
  pass.points = request.points;
  pass.layout = finest.layout;
  pass.index = index;
  pass.levels = clear.levels;
  pass.status = finest.status;
  pass.duplicate_status = finest.refuses_duplicates ? kStatusDuplicate : 0;
  pass.source_row = finest.source_row;
  pass.row_of = finest.row_of;
  for (std::size_t l = 0; l < request.levels.size(); ++l) {
    const IndexSetsRequest::Level& level = request.levels[l];
    std::copy(level.stride.begin(), level.stride.end(), clear.strides.axis[l]);
    pass.sets[l] = {level.coords.keys, level.coords.count, level.coords.capacity};
  }
  const i64 cell_words = clear.levels * most * kRunWords;
  const i32 clear_threads = kernels.choice.clear_cells.threads;
  MINUET_TRY(launcher_.launch(kernels.clear_cells,
                              stride_grid(std::max(cell_words, clear.most_words) / 2, clear_threads,
                                          launcher_.multiprocessors(), kClearBlocksPerMultiprocessor),
                              clear));
  MINUET_TRY(launcher_.launch_stride(kernels.index_runs, most, pass));
  ScanParams runs = {index.runs, &index.grids->words, 1, 1, 0, index.runs, nullptr};
  MINUET_TRY(scan(kernels.scan_bits, kernels.choice.scan_bits, clear.most_words, runs));
  MINUET_TRY(launcher_.launch_stride(kernels.index_cells, most, pass));
  ScanParams cells = {index.cells, &index.grids->runs, kRunWords, 1, 0, index.cells, nullptr};
  MINUET_TRY(scan(kernels.scan_bits, kernels.choice.scan_bits, cell_words, cells));
  return launcher_.launch_stride(kernels.index_rows, most, pass);
}

llvm::Error MapStep::search_index(llvm::ArrayRef<IndexedSearch> searches) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  if (searches.empty()) return llvm::Error::success();
  const SetIndex& index = searches.front().map->index;
  const MapKernels& kernels = this->kernels(index.key);
  while (!searches.empty()) {
    const auto some = searches.take_front(kMostCellSearches);
    searches = searches.drop_front(some.size());
    SearchCellsParams params = {};
    params.layout = index.layout;
    params.index = index.cells;
    i64 blocks = 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const IndexedSearch& search = some[i];
      const MapView& map = *search.map;
      blocks += stride_grid(search.queries.capacity, kernels.choice.search_cells.threads,
                            launcher_.multiprocessors(), kLineBlocksPerMultiprocessor);
      params.searches[i] = {search.queries.keys,
                            search.queries.count,
                            map.geometry,
                            map.index.source_level,
                            static_cast<u32>(blocks),
                            map.rows,
                            map.masks,
                            reinterpret_cast<u32*>(map.counts)};
    }
    MINUET_TRY(launcher_.launch(kernels.search_cells, blocks, params));
  }
  return llvm::Error::success();
}

}  // namespace minuet
