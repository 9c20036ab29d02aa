#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/maps/coordinate_set.h"

namespace minuet {

llvm::Expected<std::shared_ptr<KernelMap>> KernelMap::create(std::shared_ptr<const CoordinateSet> input,
                                                             std::shared_ptr<const CoordinateSet> output,
                                                             const WindowProblem& kernel, bool transposed,
                                                             void* stream) {
  const std::shared_ptr<MapEngines>& engines = input->engines();
  if (engines != output->engines()) {
    return make_error(
        StatusCode::InvalidArgument,
        "the two coordinate sets differ in device or ndim: make both with one device and one ndim");
  }
  if (input->queue() != output->queue()) {
    return make_error(StatusCode::InvalidArgument,
                      "the two coordinate sets were made with different queues, or only one of them with a "
                      "queue: use the same queue for both, or none");
  }
  MINUET_TRY(input->check_stream(stream));
  MINUET_TRY(input->make_deferred());
  MINUET_TRY(output->make_deferred());
  MINUET_TRY(input->count_rows());
  MINUET_TRY(output->count_rows());
  const CoordinateSet &finer = transposed ? *output : *input, &coarser = transposed ? *input : *output;
  MINUET_TRY(check_kernel(engines->ndim(),
                          {kernel.kernel_size, kernel.dilation, kernel.padding, kernel.offsets},
                          finer.tensor_stride(), coarser.rows()));
  std::shared_ptr<KernelMap> map(new KernelMap());
  map->input_ = std::move(input);
  map->output_ = std::move(output);
  map->transposed_ = transposed;
  const CoordinateSet &fine = map->fine(), &coarse = map->coarse();
  MapView& view = map->pairs_->view;
  view.geometry = make_geometry(engines->ndim(), kernel.kernel_size, kernel.dilation, fine.tensor_stride(),
                                kernel.padding, kernel.offsets);
  map->pairs_->offsets = kernel.offsets;
  view.offsets = map->pairs_->offsets;
  view.sources = fine.rows();
  view.queries = coarse.rows();
  if (map->is_identity()) {
    map->pairs_->counts = {static_cast<i32>(view.queries)};
    map->pairs_->has_counts = true;
  }
  // Without a queue everything is made now, because later any thread may use the map.
  const bool has_queue = map->queue() != nullptr;
  if (has_queue && !map->is_identity()) map->find_index(kernel);
  // If the neighbours can be looked up in an index, the search for them is deferred to view_of() or
  // find_masks(), because the forms of the map's views (ViewForm) are known only then.
  if (map->is_indexed()) {
    MINUET_ASSIGN(const MapEngines::Lease engine, engines->take(map->queue().get()));
    MINUET_TRY(engine->begin_making(stream));
    return map;
  }
  if (!has_queue || !map->is_identity()) MINUET_TRY(map->find(stream, /*positions=*/!has_queue));
  return map;
}

void KernelMap::find_index(const WindowProblem& kernel) const {
  const CoordinateSet &fine = this->fine(), &coarse = this->coarse();
  const IndexSide sources = fine.side(), queries = coarse.side();
  // A map with a list of offsets keeps a table of rows, because make_views() looks up only the offsets of
  // boxes.
  if (sources.index != queries.index || !fine.engines()->looks_up_rows() || !kernel.offsets.empty()) return;
  pairs_->view.index = {sources.index, sources.level, queries.level};
  // In an index, a set that the caller gave has voxels of stride 1. If its tensor stride is not 1, the result
  // of fills_voxels() is not valid for the index, because it is computed from the tensor strides.
  pairs_->has_children = sources.index && !kernel.padding && fine.voxel_stride() == fine.tensor_stride() &&
                         coarse.voxel_stride() == coarse.tensor_stride() &&
                         fills_voxels(fine.engines()->ndim(), kernel.kernel_size, kernel.dilation,
                                      fine.tensor_stride(), coarse.tensor_stride());
}

llvm::Error KernelMap::place_masks() const {
  MapView& view = pairs_->view;
  if (view.masks) return llvm::Error::success();
  auto place = [&](Placement& parts) {
    view.masks = parts.take<u32>(mask_words(view.geometry.volume) * view.queries);
    if (!pairs_->has_children) return;
    view.index.children = parts.take<i32>(view.queries);
    view.index.parents = parts.take<i32>(view.sources);
  };
  MINUET_ASSIGN(pairs_->masks, allocate_parts(input_->memory_source(), place));
  return llvm::Error::success();
}

llvm::Expected<MapView> KernelMap::view_of(bool transposed, ViewForm form) const {
  if (is_identity()) return view();
  const bool looks_up = form == ViewForm::Masked && is_indexed() && (!transposed || pairs_->has_children);
  if (looks_up) MINUET_TRY(place_masks());
  if (!looks_up && !view().rows) MINUET_TRY(find(queue()->stream(), /*positions=*/false));
  MapView read = view();
  if (looks_up) {
    read.rows = nullptr;
  } else {
    read.masks = nullptr;
    read.index = {};
  }
  return read;
}

llvm::Error KernelMap::find_masks(llvm::ArrayRef<std::shared_ptr<const KernelMap>> maps, Engine& engine) {
  std::vector<Pairs*> unfound;
  std::vector<IndexedSearch> searches;
  for (const std::shared_ptr<const KernelMap>& map : maps) {
    Pairs& pairs = *map->pairs_;
    if (!pairs.view.masks || pairs.has_masks || llvm::is_contained(unfound, &pairs)) continue;
    unfound.push_back(&pairs);
    searches.push_back({map->coarse().coords(), map->fine().coords(), &pairs.view});
  }
  if (!searches.empty()) MINUET_TRY(engine.maps().search_index(searches));
  for (Pairs* const pairs : unfound) pairs->has_masks = true;
  return llvm::Error::success();
}

llvm::Error KernelMap::find(void* stream, bool positions) const {
  MapView found = pairs_->view;
  const i64 entries = found.geometry.volume * found.queries;
  const std::shared_ptr<MemorySource> source = input_->memory_source();
  MINUET_ASSIGN(const MapEngines::Lease engine, input_->engines()->take(queue().get()));
  MINUET_TRY(engine->begin_maps(limits(), stream));
  if (!found.rows) {
    auto place = [&](Placement& parts) { found.rows = parts.take<i32>(entries); };
    MINUET_ASSIGN(pairs_->rows, allocate_parts(source, place));
    MINUET_TRY(place_masks());
    found.masks = view().masks;
    found.index = view().index;
    MINUET_TRY((*engine)->maps().search_index({IndexedSearch{coarse().coords(), fine().coords(), &found}}));
    pairs_->has_masks = true;
  }
  if (positions) {
    auto place = [&](Placement& parts) {
      found.positions = parts.take<i32>(entries + 1);
      found.counts = parts.take<i32>(found.geometry.volume);
    };
    MINUET_ASSIGN(pairs_->positions, allocate_parts(source, place));
    MINUET_TRY((*engine)->maps().count_pairs(coarse().coords(), found));
  }
  MapView& view = pairs_->view;
  view.rows = found.rows;
  view.positions = found.positions;
  view.counts = found.counts;
  // Without a queue, the function must wait for the work anyway before it gives the engine back, because
  // the next call may use the engine's workspace on another stream. It therefore reads the counts back at
  // the same time.
  return queue() || has_counts() ? llvm::Error::success() : read_counts(*engine);
}

llvm::Error KernelMap::find_pairs() const {
  return view().positions ? llvm::Error::success() : find(queue()->stream(), /*positions=*/true);
}

MapLimits KernelMap::limits() const {
  return {1, std::max<i64>({fine().rows(), coarse().rows(), 1}), 0, 1, view().geometry.volume};
}

/// Copies the counts to the host and waits for them.
llvm::Error KernelMap::read_counts(MapEngine& engine) const {
  std::vector<i32> counts(static_cast<std::size_t>(view().geometry.volume));
  MINUET_TRY(engine.read_words(counts.data(), view().counts, view().geometry.volume));
  pairs_->counts = std::move(counts);
  pairs_->has_counts = true;
  return llvm::Error::success();
}

llvm::Expected<llvm::ArrayRef<i32>> KernelMap::counts() const {
  if (!has_counts()) {
    MINUET_TRY(find_pairs());
    MINUET_ASSIGN(const MapEngines::Lease engine, input_->engines()->take(queue().get()));
    MINUET_TRY(engine->begin(queue()->stream()));
    MINUET_TRY(read_counts(*engine));
  }
  return llvm::ArrayRef<i32>(pairs_->counts);
}

llvm::Expected<i64> KernelMap::pairs() const {
  MINUET_ASSIGN(const llvm::ArrayRef<i32> found, counts());
  return std::accumulate(found.begin(), found.end(), i64{0});
}

std::shared_ptr<KernelMap> KernelMap::transpose() const {
  std::shared_ptr<KernelMap> map(new KernelMap(*this));
  std::swap(map->input_, map->output_);
  map->transposed_ = !transposed_;
  return map;
}

std::shared_ptr<SharedView> KernelMap::find_view(bool transposed, ViewForm form) const {
  for (const std::shared_ptr<SharedView>& view : pairs_->views) {
    if (view->transposed == transposed && view->form == form) return view;
  }
  return nullptr;
}

llvm::Error KernelMap::check_serves(const WindowProblem& problem, const char* op) const {
  const bool transposed = problem.is_transposed();
  if (transposed_ != transposed) {
    return make_error(StatusCode::InvalidArgument,
                      "the {0} is {1}, but the kernel map is {2}: give a map of the same direction", op,
                      transposed ? "transposed" : "forward", transposed_ ? "transposed" : "forward");
  }
  return minuet::check_serves(
      {view().geometry, view().offsets, fine().tensor_stride(), coarse().tensor_stride(), input_ == output_},
      problem, op);
}

/// Returns a request that lists the pairs as [capacity][3] numbers.
PairsRequest KernelMap::pairs_request(i32* pairs, i64 capacity, i32* count) const {
  PairsRequest request = PairsRequest::side_by_side(pairs, capacity, count);
  request.map = &view();
  request.most_queries = view().queries;
  request.source_numbers = fine().source_row();
  request.query_numbers = coarse().source_row();
  if (transposed_) std::swap(request.sources, request.targets);
  return request;
}

llvm::Error KernelMap::check_no_duplicates() const {
  for (const CoordinateSet* const set : {input_.get(), output_.get()}) {
    if (set->rows() == set->caller_rows()) continue;
    return make_error(StatusCode::InvalidArgument,
                      "a set of the kernel map has {0} rows for {1} coordinates, because it was made with "
                      "keep_first_duplicate, and gradients of duplicates are not added: make the set of "
                      "coordinates without duplicates",
                      set->rows(), set->caller_rows());
  }
  return llvm::Error::success();
}

llvm::Error KernelMap::list_pairs(i32* pairs, i64 capacity, i32* count, void* stream) const {
  MINUET_TRY(check_no_duplicates());
  MINUET_TRY(input_->check_stream(stream));
  MINUET_TRY(find_pairs());
  MINUET_ASSIGN(const MapEngines::Lease engine, input_->engines()->take(queue().get()));
  MINUET_TRY(engine->begin_making(stream));
  return (*engine)->maps().compact_pairs(pairs_request(pairs, capacity, count));
}

llvm::Error KernelMap::export_pairs(i32* pairs, void* stream) const {
  MINUET_TRY(input_->check_stream(stream));
  MINUET_TRY(find_pairs());
  MINUET_ASSIGN(const llvm::ArrayRef<i32> counts, this->counts());
  const i64 total = std::accumulate(counts.begin(), counts.end(), i64{0});
  if (total == 0) return llvm::Error::success();
  if (!pairs)
    return make_error(StatusCode::InvalidArgument,
                      "pairs is null, but the kernel map has {0} pairs: give memory for them", total);
  const i64 bytes = 3 * total * static_cast<i64>(sizeof(i32));
  DeviceMemory listed;
  {
    MINUET_ASSIGN(const MapEngines::Lease engine, input_->engines()->take(queue().get()));
    MINUET_TRY(engine->begin_making(stream));
    MINUET_ASSIGN(listed, DeviceMemory::create(input_->memory_source(), bytes));
    i32* const list = reinterpret_cast<i32*>(listed.data());
    MINUET_TRY((*engine)->maps().compact_pairs(pairs_request(list, total, nullptr)));
    MINUET_TRY((*engine)->wait());
  }
  return device()->download(pairs, listed.data(), bytes);
}

}  // namespace minuet
