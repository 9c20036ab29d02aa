#include <algorithm>
#include <map>
#include <numeric>

#include "runtime/maps/coordinate_set.h"

namespace minuet {
namespace {

llvm::Error check_geometry(const CoordinateSet& input, const CoordinateSet& output,
                           const AxisArray& kernel_size, const AxisArray& dilation, bool transposed,
                           i32 ndim) {
  const AxisArray& fine = transposed ? output.tensor_stride() : input.tensor_stride();
  i64 volume = 1;
  for (i32 a = 0; a < kMaxDim; ++a) {
    if (kernel_size[a] < 1 || dilation[a] < 1 || dilation[a] > kMostCells ||
        (a >= ndim && kernel_size[a] != 1)) {
      return make_error(
          StatusCode::InvalidArgument,
          "axis {0} has kernel size {1} and dilation {2}; a kernel size must be 1 or more on the "
          "first {3} axes and 1 on the others, a dilation 1 to {4}",
          a, kernel_size[a], dilation[a], ndim, kMostCells);
    }
    volume *= kernel_size[a];
    if (volume > kMostOffsets) {
      return make_error(
          StatusCode::InvalidArgument,
          "axis {0}: with kernel size {1} the kernel has {2} offsets; at most {3} are supported", a,
          kernel_size[a], volume, kMostOffsets);
    }
    const i64 step = static_cast<i64>(dilation[a]) * fine[a];
    if (kernel_size[a] > kFarthestOffset / step) {
      return make_error(
          StatusCode::InvalidArgument,
          "axis {0}: kernel size {1} times dilation {2} times tensor stride {3} is more than {4}, "
          "the largest extent of a kernel in cells",
          a, kernel_size[a], dilation[a], fine[a], kFarthestOffset);
    }
  }
  const i64 queries = transposed ? input.rows() : output.rows();
  if (queries > most_map_rows(volume)) {
    return make_error(StatusCode::OutOfRange,
                      "{0} offsets times {1} rows are more than the 2^31 - 1 entries that a kernel map can "
                      "hold: split the batch",
                      volume, queries);
  }
  return llvm::Error::success();
}

bool is_same(const KeyLayout& a, const KeyLayout& b) {
  return a.fields == b.fields && std::equal(a.bias, a.bias + a.fields, b.bias) &&
         std::equal(a.shift, a.shift + a.fields, b.shift) && std::equal(a.bits, a.bits + a.fields, b.bits);
}

}  // namespace

llvm::Expected<std::shared_ptr<KernelMap>> KernelMap::create(std::shared_ptr<const CoordinateSet> input,
                                                             std::shared_ptr<const CoordinateSet> output,
                                                             const AxisArray& kernel_size,
                                                             const AxisArray& dilation, bool transposed,
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
  MINUET_TRY(check_geometry(*input, *output, kernel_size, dilation, transposed, engines->ndim()));
  std::shared_ptr<KernelMap> map(new KernelMap());
  map->input_ = std::move(input);
  map->output_ = std::move(output);
  map->transposed_ = transposed;
  const CoordinateSet &fine = map->fine(), &coarse = map->coarse();
  MapView& view = map->pairs_->view;
  view.geometry = make_geometry(engines->ndim(), kernel_size, dilation, fine.tensor_stride());
  view.sources = fine.rows();
  view.queries = coarse.rows();
  if (map->is_identity()) {
    map->pairs_->counts = {static_cast<i32>(view.queries)};
    map->pairs_->has_counts = true;
  }
  if (!map->is_identity()) view.index = map->find_index(kernel_size, dilation);
  // An indexed map is searched later, in view_of() or find_masks(), when the forms of its views are known
  // (ViewForm).
  if (map->is_indexed()) {
    MINUET_ASSIGN(const MapEngines::Lease engine, engines->take(map->queue().get()));
    MINUET_TRY(engine->begin_making(stream));
    return map;
  }
  // Without a queue everything is made now, because later any thread may use the map.
  const bool has_queue = map->queue() != nullptr;
  if (!has_queue || !map->is_identity()) MINUET_TRY(map->find(stream, /*positions=*/!has_queue));
  return map;
}

IndexedSides KernelMap::find_index(const AxisArray& kernel_size, const AxisArray& dilation) const {
  const CoordinateSet &fine = this->fine(), &coarse = this->coarse();
  const i32 ndim = fine.engines()->ndim();
  if (!fine.family_ || fine.family_ != coarse.family_ || !fine.family_->is_made() || !is_guarded()) return {};
  const AxisArray sources = fine.cell_stride(), queries = coarse.cell_stride();
  for (i32 a = 0; a < ndim; ++a) {
    // The index has no cells for queries that are not on the grid of the sources.
    if (queries[a] % sources[a] != 0) return {};
  }
  return {fine.family_->index,
          fine.level_,
          coarse.level_,
          fine.coords_.keys,
          coarse.coords_.keys,
          sources == fine.tensor_stride() &&
              fills_cells(ndim, kernel_size, dilation, sources, coarse.tensor_stride())};
}

/// Returns true if the guards in the key layouts of both sets (key_layout.h) are large enough for all
/// offsets.
bool KernelMap::is_guarded() const {
  const KernelGeometry& geometry = view().geometry;
  for (i32 a = 0; a < geometry.ndim; ++a) {
    const i64 reach = axis_reach(geometry.kernel_size[a], geometry.step[a]);
    if (reach > fine().guard_[a] || reach > coarse().guard_[a]) return false;
  }
  return true;
}

llvm::Error KernelMap::place_masks() const {
  MapView& view = pairs_->view;
  if (view.masks) return llvm::Error::success();
  auto place = [&](Placement& parts) {
    view.masks = parts.take<u32>(mask_words(view.geometry.volume) * view.queries);
  };
  MINUET_ASSIGN(pairs_->masks, allocate_parts(input_->memory_source(), place));
  return llvm::Error::success();
}

llvm::Expected<MapView> KernelMap::view_of(bool transposed, ViewForm form) const {
  if (is_identity()) return view();
  const bool looks_up = form == ViewForm::Masked && is_indexed() && (!transposed || view().index.fills_cells);
  if (looks_up && !transposed) MINUET_TRY(place_masks());
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
  // The keys of `searches` are the addresses of the grids of indexes. Each address identifies an index.
  std::map<const CellGrids*, std::vector<IndexedSearch>> searches;
  for (const std::shared_ptr<const KernelMap>& map : maps) {
    Pairs& pairs = *map->pairs_;
    if (!pairs.view.masks || pairs.has_masks || llvm::is_contained(unfound, &pairs)) continue;
    unfound.push_back(&pairs);
    searches[pairs.view.index.cells.grids].push_back({map->coarse().coords(), &pairs.view});
  }
  for (const auto& [index, of_index] : searches) MINUET_TRY(engine.maps().search_index(of_index));
  for (Pairs* const pairs : unfound) pairs->has_masks = true;
  return llvm::Error::success();
}

llvm::Error KernelMap::find(void* stream, bool positions) const {
  MapView found = pairs_->view;
  const i64 entries = found.geometry.volume * found.queries;
  const std::shared_ptr<MemorySource> source = input_->memory_source();
  // This vector is declared before the lease of the engine, so that its memory is released after the lease.
  // Without a queue, the end of the lease waits for the work that uses the memory.
  std::vector<DeviceMemory> used;
  MINUET_ASSIGN(const MapEngines::Lease engine, input_->engines()->take(queue().get()));
  if (found.rows) {
    MINUET_TRY(engine->begin_maps(limits(coarse().key_bits_, 0), stream));
  } else {
    auto place = [&](Placement& parts) { found.rows = parts.take<i32>(entries); };
    MINUET_ASSIGN(pairs_->rows, allocate_parts(source, place));
    MINUET_TRY(is_indexed() ? search_index(*engine, found, stream) : search(*engine, found, used, stream));
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
  // Without a queue, the function must wait for the search anyway, because the search uses memory that is
  // released when the function returns. It therefore reads the counts back at the same time.
  return queue() || has_counts() ? llvm::Error::success() : read_counts(*engine);
}

llvm::Error KernelMap::find_pairs() const {
  return view().positions ? llvm::Error::success() : find(queue()->stream(), /*positions=*/true);
}

MapLimits KernelMap::limits(i32 key_bits, i32 sets) const {
  return {key_bits, std::max<i64>({fine().rows(), coarse().rows(), 1}), sets, 1, view().geometry.volume};
}

llvm::Error KernelMap::search_index(MapEngine& engine, MapView& found, void* stream) const {
  MINUET_TRY(place_masks());
  found.masks = view().masks;
  MINUET_TRY(engine.begin_maps(limits(coarse().key_bits_, 0), stream));
  MINUET_TRY(engine->maps().search_index({IndexedSearch{coarse().coords(), &found}}));
  pairs_->has_masks = true;
  return llvm::Error::success();
}

/// Searches with the keys of the sets if both have the same layout and its guard is large enough. Otherwise
/// packs the keys of both sets in a common layout first.
llvm::Error KernelMap::search(MapEngine& engine, MapView& found, std::vector<DeviceMemory>& used,
                              void* stream) const {
  const CoordinateSet &fine = this->fine(), &coarse = this->coarse();
  const i32 ndim = fine.engines()->ndim();
  i64 guard[kMaxDim] = {}, period[kMaxDim] = {1, 1, 1, 1};
  for (i32 a = 0; a < ndim; ++a) {
    guard[a] = axis_reach(found.geometry.kernel_size[a], found.geometry.step[a]);
  }
  Coords sources = fine.coords(), queries = coarse.coords();
  const bool repack = !is_guarded() || !is_same(fine.layout_, coarse.layout_) || sources.key != queries.key;
  i32 key_bits = fine.key_bits_;
  const CloudLayout* layout = fine.state_.layout;
  CloudState common;
  Bounds bounds = fine.bounds_;
  if (repack) {
    // An empty set has no bounds.
    if (fine.rows() == 0) bounds = coarse.bounds_;
    for (i32 f = 0; f <= ndim && coarse.rows() > 0; ++f) {
      bounds.least[f] = std::min(bounds.least[f], coarse.bounds_.least[f]);
      bounds.greatest[f] = std::max(bounds.greatest[f], coarse.bounds_.greatest[f]);
    }
    MINUET_ASSIGN(const KeyLayout wide, make_cloud_layout(ndim, bounds, guard, period));
    key_bits = rounded_key_bits(wide);
    auto place = [&](Placement& parts) {
      sources = place_coords(parts, fine.rows(), key_bits);
      queries = place_coords(parts, coarse.rows(), key_bits);
      common = {parts.take<u32>(1), parts.take<i32>(1), nullptr, parts.take<CloudLayout>(1)};
    };
    MINUET_ASSIGN(DeviceMemory repacked, allocate_parts(fine.memory_source(), place));
    used.push_back(std::move(repacked));
  }
  MINUET_TRY(engine.begin_maps(limits(key_bits, repack ? 2 : 0), stream));
  if (repack) {
    LayoutRequest request;
    request.declared = &bounds;
    std::copy_n(guard, kMaxDim, request.guard);
    std::copy_n(period, kMaxDim, request.period);
    request.key_bits = key_bits;
    request.cloud = common;
    MINUET_TRY(engine->maps().find_layout(request));
    layout = common.layout;
    MINUET_TRY(fine.repack(engine, layout, sources, used));
    MINUET_TRY(coarse.repack(engine, layout, queries, used));
  }
  return engine->maps().search({sources, queries, layout, &found});
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
  for (i32 a = 0; a < problem.ndim; ++a) {
    const i64 step = static_cast<i64>(problem.dilation[a]) * fine().tensor_stride()[a];
    if (step <= kFarthestOffset) continue;
    return make_error(
        StatusCode::InvalidArgument,
        "axis {0}: dilation {1} on tensor stride {2} reaches {3} cells; at most {4} are supported", a,
        problem.dilation[a], fine().tensor_stride()[a], step, kFarthestOffset);
  }
  const KernelGeometry wanted =
      make_geometry(problem.ndim, problem.kernel_size, problem.dilation, fine().tensor_stride());
  const KernelGeometry& got = view().geometry;
  if (got.ndim != wanted.ndim ||
      !std::equal(got.kernel_size, got.kernel_size + kMaxDim, wanted.kernel_size) ||
      !std::equal(got.step, got.step + kMaxDim, wanted.step)) {
    return make_error(
        StatusCode::InvalidArgument,
        "the kernel map and the {0} differ in kernel size or dilation: make the map with those of the {0}",
        op);
  }
  const bool transposed = problem.is_transposed();
  if (transposed_ != transposed) {
    return make_error(StatusCode::InvalidArgument,
                      "the {0} is {1}, but the kernel map is {2}: give a map of the same direction", op,
                      transposed ? "transposed" : "forward", transposed_ ? "transposed" : "forward");
  }
  if (problem.kind == ConvolutionKind::Submanifold && input_ != output_) {
    return make_error(StatusCode::InvalidArgument,
                      "a submanifold {0} needs a map whose output set is its input set: make the map with "
                      "the same set for both",
                      op);
  }
  for (i32 a = 0; a < problem.ndim && problem.kind != ConvolutionKind::GivenOutputs; ++a) {
    if (static_cast<i64>(fine().tensor_stride()[a]) * problem.stride[a] != coarse().tensor_stride()[a]) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0}: the tensor strides of the map's sets, {1} and {2}, do not differ by a "
                        "factor of {3}, the {4}'s stride",
                        a, fine().tensor_stride()[a], coarse().tensor_stride()[a], problem.stride[a], op);
    }
  }
  return llvm::Error::success();
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
  const std::shared_ptr<Device>& device = this->device();
  const i64 bytes = total * static_cast<i64>(sizeof(i32));
  MINUET_ASSIGN(const DeviceMemory compacted, DeviceMemory::create(input_->memory_source(), 2 * bytes));
  i32* sources = reinterpret_cast<i32*>(compacted.data());
  i32* targets = sources + total;
  {
    MINUET_ASSIGN(const MapEngines::Lease engine, input_->engines()->take(queue().get()));
    MINUET_TRY(engine->begin(stream));
    MINUET_TRY((*engine)->maps().compact_pairs(view(), sources, targets));
    MINUET_TRY((*engine)->wait());
  }
  auto fetch = [&](const i32* words, i64 count) -> llvm::Expected<std::vector<i32>> {
    std::vector<i32> host(static_cast<std::size_t>(count));
    if (words && count > 0) {
      MINUET_TRY(device->download(host.data(), words, count * static_cast<i64>(sizeof(i32))));
    } else {
      std::iota(host.begin(), host.end(), 0);
    }
    return host;
  };
  MINUET_ASSIGN(const std::vector<i32> input_rows, fetch(transposed_ ? targets : sources, total));
  MINUET_ASSIGN(const std::vector<i32> output_rows, fetch(transposed_ ? sources : targets, total));
  MINUET_ASSIGN(const std::vector<i32> caller_input, fetch(input_->source_row(), input_->rows()));
  MINUET_ASSIGN(const std::vector<i32> caller_output, fetch(output_->source_row(), output_->rows()));
  i64 pair = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    for (i32 i = 0; i < counts[k]; ++i, ++pair) {
      pairs[pair * 3] = static_cast<i32>(k);
      pairs[pair * 3 + 1] = caller_input[input_rows[pair]];
      pairs[pair * 3 + 2] = caller_output[output_rows[pair]];
    }
  }
  return llvm::Error::success();
}

}  // namespace minuet
