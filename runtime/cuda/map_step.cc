#include "runtime/cuda/map_step.h"

#include <utility>

namespace minuet {
namespace {

// Limits the grid of the kernel compact_pairs on a branch, so that it leaves room for the kernels beside it.
constexpr i64 kBranchPairBlocksPerMultiprocessor = 4;

/// Returns parameters with which a kernel writes the unique keys to `coords`.
UniqueParams into(const Coords& coords, u32* status) {
  UniqueParams unique = {};
  unique.unique_keys = coords.keys;
  unique.unique_count = coords.count;
  unique.capacity = coords.capacity;
  unique.status = status;
  return unique;
}

PairsJob pairs_of(const PairsRequest& request) {
  PairsJob pairs = {};
  pairs.volume = 1;
  if (const MapView* const map = request.map) {
    pairs.map = map->rows;
    pairs.positions = map->positions;
    pairs.volume = map->geometry.volume;
  }
  pairs.query_count = request.query_count;
  pairs.queries = request.most_queries;
  pairs.source_numbers = request.source_numbers;
  pairs.query_numbers = request.query_numbers;
  pairs.offsets = request.offsets;
  pairs.sources = request.sources;
  pairs.targets = request.targets;
  pairs.step = request.step;
  pairs.capacity = request.capacity;
  pairs.pair_count = request.pair_count;
  return pairs;
}

}  // namespace

llvm::Expected<MapKernels> MapKernels::create(CudaDevice& device, const MapChoice& choice) {
  MapKernels kernels;
  kernels.choice = choice;
  llvm::Error error = llvm::Error::success();
  visit_map_kernels(choice, kernels, [&](const auto& spec, auto& kernel) {
    if (error) return;
    auto loaded = device.kernel(spec);
    if (loaded) {
      kernel = *loaded;
    } else {
      error = loaded.takeError();
    }
  });
  if (error) return error;
  return kernels;
}

SortKernels MapKernels::sort(bool rows, i64 capacity) const {
  return {choice.radix_histogram, (rows ? choice.radix_pass_rows : choice.radix_pass_keys).of(capacity),
          radix_histogram, (rows ? radix_pass_rows : radix_pass_keys).of(capacity)};
}

SortKernels MapKernels::rank_sort(i64 capacity) const {
  return {choice.rank_histogram, choice.rank_pass.of(capacity), rank_histogram, rank_pass.of(capacity)};
}

llvm::Expected<std::unique_ptr<MapStep>> MapStep::create(Launcher& launcher, const EngineChoice& choice) {
  MINUET_ASSIGN(MapKernels map32, MapKernels::create(launcher.device(), choice.map32));
  MINUET_ASSIGN(MapKernels map64, MapKernels::create(launcher.device(), choice.map64));
  return std::unique_ptr<MapStep>(new MapStep(launcher, map32, map64));
}

i64 MapStep::workspace_bytes(const MapLimits& limits) const {
  return map_workspace_bytes(map32_.choice, map64_.choice, limits);
}

llvm::Error MapStep::begin(const MapLimits& limits, void* workspace) {
  limits_ = limits;
  // Kernels may still use the workspace to count the pairs of the previous cloud, because the host does not
  // wait for them. The workspace is free only if the launcher has no unfinished kernels.
  work_ = MapWorkspace::place(kernels(limits.key()).choice, limits, static_cast<char*>(workspace),
                              launcher_.is_idle());
  next_sort_ = next_scan_ = 0;
  is_prepared_ = false;
  return launcher_.mark(Stage::Sort);
}

llvm::Error MapStep::prepare_sorts_and_scans() {
  if (std::exchange(is_prepared_, true)) return llvm::Error::success();
  const PrepareScansParams params{work_.scans, work_.scan_bytes, work_.scan_count,
                                  reinterpret_cast<u32*>(work_.sorts),
                                  limits_.sets * work_.sort_bytes / static_cast<i64>(sizeof(u32))};
  const i64 items = std::max(work_.scan_count * work_.scan_bytes / kScanTileBytes, params.zero_words);
  return launcher_.launch_stride(kernels(limits_.key()).prepare_scans, items, params);
}

llvm::Error MapStep::find_layout(const LayoutRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Other));
  const CloudState& cloud = request.cloud;
  // The kernels that find a layout do not depend on the width of keys, so those of map32_ serve both widths.
  MakeLayoutParams make = {};
  make.cloud = {request.given_count, request.most, cloud.status, cloud.points, cloud.bounds};
  if (request.declared) {
    make.cloud.bounds = nullptr;
    std::copy_n(request.declared->least, kMaxFields, make.least);
    std::copy_n(request.declared->greatest, kMaxFields, make.greatest);
  } else {
    if (request.limits) {
      make.has_limits = 1;
      std::copy_n(request.limits->least, kMaxFields, make.least);
      std::copy_n(request.limits->greatest, kMaxFields, make.greatest);
    }
    MINUET_TRY(launcher_.launch(map32_.begin_cloud, 1, make.cloud));
    const FindBoundsParams find{request.coordinates, cloud.points, cloud.bounds};
    MINUET_TRY(launcher_.launch_stride(map32_.find_bounds, std::max<i64>(request.most, 1), find));
  }
  std::copy_n(request.guard, kMaxDim, make.guard);
  std::copy_n(request.period, kMaxDim, make.period);
  make.key_bits = request.key_bits;
  make.layout = cloud.layout;
  return launcher_.launch(map32_.make_layout, 1, make);
}

llvm::Error MapStep::build_coords(const BuildCoordsRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Sort));
  const SortJob job{request.count, std::max<i64>(request.most, 1), request.source_row || request.row_of};
  PackParams pack = {};
  pack.coordinates = request.coordinates;
  pack.count = request.count;
  pack.layout = request.layout;
  pack.keys = work_.keys[0];
  pack.rows = job.rows ? work_.rows[0] : nullptr;
  pack.status = request.status;
  MINUET_TRY(launcher_.launch_stride(kernels(limits_.key()).pack, job.capacity, pack));
  i32 half = 0;
  MINUET_TRY(sort(job, half));
  UniqueParams unique = into(request.coords, request.status);
  unique.duplicate_status = request.refuses_duplicates ? kStatusDuplicate : 0;
  unique.source_row = request.source_row;
  unique.row_of = request.row_of;
  return make_unique(job, half, unique);
}

/// Makes the set of all cells that follow from DownsampleRequest::sources.
llvm::Error MapStep::reach(const DownsampleRequest& request) {
  const i64 most = request.most_cells();
  MINUET_TRY(check_sort(most));
  MINUET_TRY(prepare_sorts_and_scans());
  ReachKeysParams params = {};
  params.layout = request.layout;
  params.reached = work_.keys[0];
  params.reached_count = work_.sort_state(next_sort_).key_count;
  for (std::size_t i = 0; i < request.sources.size(); ++i) {
    // Each launch appends its keys to those of the launch before.
    const Coords& parent = request.parent(i);
    params.keys = parent.keys;
    params.count = parent.count;
    params.source = request.sources[i];
    if (params.source.also_in >= 0) {
      params.others = request.other.keys;
      params.other_count = request.other.count;
    }
    MINUET_TRY(launcher_.launch_stride(kernels(limits_.key()).reach_keys, request.most_cells(i), params));
  }
  const SortJob job{reinterpret_cast<const i32*>(params.reached_count), most, false};
  i32 half = 0;
  MINUET_TRY(sort(job, half));
  return make_unique(job, half, into(request.coarse, request.status));
}

llvm::Error MapStep::downsample(const DownsampleRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Sort));
  if (!request.sources.empty()) return reach(request);
  DownsampleParams params = {};
  params.keys = request.fine.keys;
  params.count = request.fine.count;
  params.layout = request.layout;
  std::copy_n(request.stride.begin(), kMaxDim, params.stride);
  params.floored = work_.keys[0];
  const SortJob job{request.fine.count, std::max<i64>(request.fine.capacity, 1), false};
  MINUET_TRY(launcher_.launch_stride(kernels(limits_.key()).downsample, job.capacity, params));
  i32 half = 0;
  MINUET_TRY(sort(job, half));
  return make_unique(job, half, into(request.coarse, request.status));
}

llvm::Error MapStep::sort(const SortJob& job, i32& half) {
  MINUET_TRY(check_sort(job.capacity));
  MINUET_TRY(prepare_sorts_and_scans());
  const SortMemory memory{{work_.keys[0], work_.keys[1]},
                          {job.rows ? work_.rows[0] : nullptr, job.rows ? work_.rows[1] : nullptr},
                          work_.sort_state(next_sort_++),
                          work_.sort_tiles};
  return enqueue_sort(launcher_, kernels(limits_.key()).sort(job.rows, job.capacity),
                      {job.count, job.capacity, 0, limits_.key_bits}, memory, half);
}

llvm::Error MapStep::check_sort(i64 capacity) const {
  // The launches for an empty cloud are sized for one coordinate, so a capacity of 1 is always accepted.
  if (next_sort_ < limits_.sets && capacity <= std::max<i64>(limits_.most_keys(), 1)) {
    return llvm::Error::success();
  }
  return make_error(
      StatusCode::Internal,
      "coordinate set {0} with {1} coordinates does not fit the Map step, which was begun for {2} "
      "sets of at most {3}",
      next_sort_ + 1, capacity, limits_.sets, limits_.most_keys());
}

/// Writes the distinct keys among the sorted keys work_.keys[half]. The caller sets the output pointers in
/// `unique`, and this function sets the input pointers.
llvm::Error MapStep::make_unique(const SortJob& job, i32 half, UniqueParams unique) {
  const MapKernels& kernels = this->kernels(limits_.key());
  ScanParams heads = {};
  heads.input = work_.keys[half];
  heads.count = job.count;
  heads.volume = 1;
  heads.divisor = 1;
  heads.output = work_.positions;
  MINUET_TRY(scan(kernels.scan_heads, kernels.choice.scan_heads, job.capacity, heads));
  unique.keys = work_.keys[half];
  unique.rows = job.rows ? work_.rows[half] : nullptr;
  unique.count = job.count;
  unique.positions = work_.positions;
  return launcher_.launch_stride(job.rows ? kernels.unique_rows : kernels.unique_keys, job.capacity, unique);
}

llvm::Error MapStep::scan(const Kernel<ScanParams>& kernel, const ScanSpec& spec, i64 most_items,
                          ScanParams params) {
  if (next_scan_ >= work_.scan_count || scan_state_bytes(spec, most_items) > work_.scan_bytes) {
    return make_error(StatusCode::Internal,
                      "scan {0} with {1} state bytes does not fit the Map step, which was begun for {2} "
                      "scans of at most {3} bytes",
                      next_scan_ + 1, scan_state_bytes(spec, most_items), work_.scan_count, work_.scan_bytes);
  }
  MINUET_TRY(prepare_sorts_and_scans());
  params.tiles = work_.scans + next_scan_++ * work_.scan_bytes;
  return launcher_.launch(kernel, scan_tiles(spec, most_items), params);
}

llvm::Error MapStep::search(const SearchRequest& request) {
  if (request.sources.capacity > limits_.capacity || request.map->geometry.volume > limits_.max_volume) {
    return make_error(
        StatusCode::Internal,
        "a search of {0} sources and {1} offsets does not fit the Map step, which was begun for at most {2} "
        "and {3}",
        request.sources.capacity, request.map->geometry.volume, limits_.capacity, limits_.max_volume);
  }
  MINUET_TRY(launcher_.mark(Stage::Map));
  if (!request.map->offsets.empty()) return search_listed_keys(request);
  MINUET_TRY(find_pieces(request));
  return search_pieces(request);
}

/// Runs the backward search of the Minuet paper. For each source block and each kernel offset, it finds the
/// range of queries that must be looked up in the block, and the number of query blocks in this range.
llvm::Error MapStep::find_pieces(const SearchRequest& request) {
  const MapKernels& kernels = this->kernels(limits_.key());
  const FindQueryBordersSpec& spec = kernels.choice.find_query_borders;
  const i32 volume = request.map->geometry.volume;
  const i64 borders = volume * source_blocks(request.sources.capacity, spec.source_block);
  FindQueryBordersParams params = {};
  params.source_keys = request.sources.keys;
  params.source_count = request.sources.count;
  params.query_keys = request.queries.keys;
  params.query_count = request.queries.count;
  params.layout = request.layout;
  params.geometry = request.map->geometry;
  params.borders = work_.borders;
  params.pieces = work_.pieces;
  // The first thread of a thread block only passes its border on to the next thread, so a thread block writes
  // one border less than it has threads.
  MINUET_TRY(launcher_.launch(kernels.find_query_borders,
                              stride_grid(borders, spec.threads - 1, launcher_.multiprocessors()), params));
  ScanParams scan_pieces = {};
  scan_pieces.input = work_.pieces;
  scan_pieces.count = request.sources.count;
  scan_pieces.volume = volume;
  scan_pieces.divisor = spec.source_block;
  scan_pieces.least_items = 1;
  scan_pieces.output = work_.piece_starts;
  return scan(kernels.scan_values, kernels.choice.scan_values, borders, scan_pieces);
}

llvm::Error MapStep::search_pieces(const SearchRequest& request) {
  const MapKernels& kernels = this->kernels(limits_.key());
  const SearchKernelMapSpec& spec = kernels.choice.search_kernel_map;
  const i64 pieces = most_pieces(request.sources.capacity, request.queries.capacity,
                                 request.map->geometry.volume, spec.source_block, spec.query_block);
  SearchKernelMapParams params = {};
  params.source_keys = request.sources.keys;
  params.source_count = request.sources.count;
  params.query_keys = request.queries.keys;
  params.query_count = request.queries.count;
  params.layout = request.layout;
  params.geometry = request.map->geometry;
  params.borders = work_.borders;
  params.piece_starts = work_.piece_starts;
  params.map = request.map->rows;
  return launcher_.launch(kernels.search_kernel_map, stride_grid(pieces, 1, launcher_.multiprocessors()),
                          params);
}

llvm::Error MapStep::void_failed(const u32* status, i32* words, i64 counts) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  return launcher_.launch(map32_.void_failed, 1, VoidFailedParams{status, words, counts});
}

llvm::Error MapStep::join_words(llvm::ArrayRef<JoinedWord> words) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  if (!join_words_) {
    MINUET_ASSIGN(join_words_, launcher_.device().kernel(JoinWordsSpec{}));
  }
  while (!words.empty()) {
    JoinWordsParams params = {};
    params.count = static_cast<i32>(std::min<std::size_t>(words.size(), kMostJoinedWords));
    std::copy_n(words.begin(), params.count, params.words);
    MINUET_TRY(launcher_.launch(*join_words_, 1, params));
    words = words.drop_front(static_cast<std::size_t>(params.count));
  }
  return llvm::Error::success();
}

llvm::Error MapStep::count_pairs(const Coords& queries, const MapView& map) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  const MapKernels& kernels = this->kernels(limits_.key());
  const i32 volume = map.geometry.volume;
  ScanParams hits = {};
  hits.input = map.rows;
  hits.count = queries.count;
  hits.volume = volume;
  hits.divisor = 1;
  hits.output = map.positions;
  MINUET_TRY(scan(kernels.scan_hits, kernels.choice.scan_hits, volume * queries.capacity, hits));
  return launcher_.launch(kernels.count_pairs, 1,
                          CountPairsParams{map.positions, queries.count, volume, map.counts});
}

llvm::Error MapStep::unpack(const Coords& coords, const CloudLayout* layout, i32* coordinates) {
  MINUET_TRY(launcher_.mark(Stage::Other));
  if (coords.capacity <= 0) return llvm::Error::success();
  if (coords.side.index) {
    return launcher_.launch_stride(
        map32_.list_voxels, coords.capacity,
        ListVoxelsParams{coords.side.index, coords.side.level, coords.count, coordinates});
  }
  return launcher_.launch_stride(kernels(coords.key).unpack, coords.capacity,
                                 UnpackParams{coords.keys, coords.count, layout, coordinates});
}

llvm::Error MapStep::compact_pairs(llvm::ArrayRef<PairsRequest> requests) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  const i64 most_blocks =
      i64{launcher_.multiprocessors()} *
      (launcher_.on_branch() ? kBranchPairBlocksPerMultiprocessor : kBlocksPerMultiprocessor);
  while (!requests.empty()) {
    CompactPairsParams params = {};
    i64 all_entries = 0, blocks = 0;
    for (const PairsRequest& request : requests.take_front(kMostPairsJobs)) {
      PairsJob& pairs = params.jobs[params.count++] = pairs_of(request);
      all_entries += pairs.volume * pairs.queries;
    }
    for (PairsJob& pairs : llvm::MutableArrayRef(params.jobs, params.count)) {
      pairs.first_block = static_cast<i32>(blocks);
      blocks += blocks_of_job(pairs.volume * pairs.queries, all_entries, map32_.compact_pairs.needs.threads,
                              most_blocks);
    }
    requests = requests.drop_front(params.count);
    MINUET_TRY(launcher_.launch(map32_.compact_pairs, blocks, params));
  }
  return llvm::Error::success();
}

}  // namespace minuet
