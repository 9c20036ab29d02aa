#include "runtime/maps/coordinate_set.h"

#include <algorithm>
#include <climits>

namespace minuet {
namespace {

// Key layouts are made for this period on each axis. A coarser set whose tensor stride divides it can share
// the key layout of the finer set.
constexpr i64 kCommonPeriod = 64;

static_assert(kMostIndexedLevels <= kMostReadbackWords,
              "the readback must have room for a status and a count of each coarser set");

/// Returns true if `stride` divides `period` on each axis. Flooring a key to `stride` then floors the
/// coordinate, and the result stays inside the guard of the key layout (key_layout.h).
bool strides_fit(const i64* period, const AxisArray& stride, i32 ndim) {
  for (i32 a = 0; a < ndim; ++a) {
    if (period[a] % stride[a] != 0) return false;
  }
  return true;
}

llvm::Expected<AxisArray> coarser_stride(const AxisArray& tensor_stride, const AxisArray& stride, i32 ndim) {
  AxisArray coarse{1, 1, 1, 1};
  for (i32 a = 0; a < ndim; ++a) {
    const i64 product = static_cast<i64>(tensor_stride[a]) * stride[a];
    if (stride[a] < 1 || product > kMostCells) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0}: stride {1} times tensor stride {2} must be 1 to 2^24", a, stride[a],
                        tensor_stride[a]);
    }
    coarse[a] = static_cast<i32>(product);
  }
  return coarse;
}

}  // namespace

std::shared_ptr<MemorySource> CoordinateSet::memory_source() const {
  return queue_ ? queue_->memory() : engines_->device();
}

llvm::Error CoordinateSet::check_stream(void* stream) const {
  return queue_ ? queue_->check_stream(stream) : llvm::Error::success();
}

llvm::Error CoordinateSet::allocate(i64 capacity, bool from_caller) {
  const i64 fields = 1 + engines_->ndim();
  auto place = [&](Placement& parts) {
    report_ = parts.take<i32>(kReportWords);
    const auto word = [&](i64 at) { return report_ ? report_ + at : nullptr; };
    state_ = {reinterpret_cast<u32*>(report_), word(1), word(kBoundsAt), nullptr};
    coords_ = {parts.take<u64>(capacity), word(kRowsAt), capacity};
    source_row_ = from_caller ? parts.take<i32>(capacity) : nullptr;
    row_of_ = from_caller ? parts.take<i32>(capacity) : nullptr;
    coordinates_ = from_caller ? parts.take<i32>(capacity * fields) : nullptr;
  };
  MINUET_ASSIGN(memory_, allocate_parts(memory_source(), place));
  return llvm::Error::success();
}

llvm::Error CoordinateSet::allocate_layout() {
  auto place = [&](Placement& parts) { state_.layout = parts.take<CloudLayout>(1); };
  MINUET_ASSIGN(DeviceMemory memory, allocate_parts(memory_source(), place));
  layout_memory_ = std::make_shared<const DeviceMemory>(std::move(memory));
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<CoordinateSet>> CoordinateSet::create(std::shared_ptr<MapEngines> engines,
                                                                     const CoordinateSetOptions& options,
                                                                     const i32* coordinates, i64 count,
                                                                     void* stream) {
  MINUET_TRY(check_coordinate_count(count));
  std::shared_ptr<CoordinateSet> set(new CoordinateSet());
  set->engines_ = std::move(engines);
  set->queue_ = options.queue;
  set->tensor_stride_ = options.tensor_stride;
  set->caller_rows_ = count;
  std::copy_n(options.max_offset, kMaxDim, set->guard_);
  std::fill_n(set->period_, kMaxDim, kCommonPeriod);
  MINUET_TRY(set->check_stream(stream));
  MINUET_TRY(set->allocate(count, true));
  MINUET_TRY(set->allocate_layout());

  MINUET_ASSIGN(const MapEngines::Lease engine, set->engines_->take(set->queue_.get()));
  if (options.has_bounds || count == 0) {
    set->bounds_ = options.bounds;
    MINUET_TRY(set->take_layout());
    const i32 bits = rounded_key_bits(set->layout_);
    MINUET_TRY(set->build(*engine, coordinates, count, &set->bounds_, bits, stream));
    MINUET_TRY(set->read_report(*engine));
  } else {
    MINUET_TRY(set->find_and_build(*engine, coordinates, count, stream));
  }
  MINUET_TRY(set->take_report(set->host_report_));
  MINUET_TRY(check_duplicates(set->rows_, count, options.keep_first_duplicate));
  if (set->queue_ && (*engine)->maps().has_cell_index()) {
    set->family_ = std::make_shared<SetFamily>();
    set->family_->words = level_index_words(set->layout_, set->cell_stride());
    set->level_ = 0;
  }
  return set;
}

llvm::Error CoordinateSet::take_layout() {
  MINUET_ASSIGN(layout_, make_cloud_layout(engines_->ndim(), bounds_, guard_, period_));
  return llvm::Error::success();
}

/// Builds the set by sorting as many key bits as earlier sets needed, while the device finds how many bits
/// this set needs. The function waits once, or twice for the first set and for a set that needs more bits.
llvm::Error CoordinateSet::find_and_build(MapEngine& engine, const i32* coordinates, i64 count,
                                          void* stream) {
  i32 bits = engines_->key_bits();
  if (bits == 0) {
    MINUET_TRY(engine.begin(stream));
    MINUET_TRY(engine->fill_words(report_, 0, kReportWords));
    MINUET_TRY(find_layout(engine, coordinates, count, nullptr, kMostKeyBits));
  } else {
    MINUET_TRY(build(engine, coordinates, count, nullptr, bits, stream));
  }
  MINUET_TRY(read_report(engine));
  bounds_ = read_bounds(host_report_ + kBoundsAt);
  MINUET_TRY(take_layout());
  const i32 needed = rounded_key_bits(layout_);
  if (needed > bits) {
    MINUET_TRY(build(engine, coordinates, count, &bounds_, needed, stream));
    MINUET_TRY(read_report(engine));
  }
  engines_->note_key_bits(needed);
  return llvm::Error::success();
}

llvm::Error CoordinateSet::find_layout(MapEngine& engine, const i32* coordinates, i64 count,
                                       const Bounds* declared, i32 key_bits) const {
  LayoutRequest request;
  request.coordinates = coordinates;
  request.most = count;
  request.declared = declared;
  std::copy_n(guard_, kMaxDim, request.guard);
  std::copy_n(period_, kMaxDim, request.period);
  request.key_bits = key_bits;
  request.cloud = state_;
  return engine->maps().find_layout(request);
}

llvm::Error CoordinateSet::build(MapEngine& engine, const i32* coordinates, i64 count, const Bounds* declared,
                                 i32 key_bits, void* stream) {
  key_bits_ = key_bits;
  coords_.key = key_type_of(key_bits);
  MINUET_TRY(engine.begin_maps({key_bits, std::max<i64>(count, 1), 1, 0, 1}, stream));
  MINUET_TRY(find_layout(engine, coordinates, count, declared, key_bits));
  BuildCoordsRequest request;
  request.coordinates = coordinates;
  request.count = state_.points;
  request.most = count;
  request.layout = state_.layout;
  request.coords = coords_;
  request.source_row = source_row_;
  request.row_of = row_of_;
  request.status = state_.status;
  MINUET_TRY(engine->maps().build_coords(request));
  // The coordinates are kept in ascending order, so that repack() can pack them in any other layout.
  return engine->maps().unpack(coords_, state_.layout, coordinates_);
}

llvm::Error CoordinateSet::read_report(MapEngine& engine) {
  return engine.read_words(host_report_, report_, kReportWords);
}

llvm::Error CoordinateSet::take_report(llvm::ArrayRef<i32> report) const {
  MINUET_TRY(check_coordinate_status(static_cast<u32>(report[0])));
  rows_ = report[rows_at_];
  return llvm::Error::success();
}

std::shared_ptr<DeferredReadback> CoordinateSet::deferred_report() const {
  const std::lock_guard<std::mutex> lock(counting_);
  return deferred_;
}

bool CoordinateSet::is_made() const {
  const std::lock_guard<std::mutex> lock(counting_);
  return !finest_;
}

llvm::Error CoordinateSet::count_rows() const {
  if (!is_made()) {
    const std::unique_lock<std::mutex> working = queue_->work();
    MINUET_TRY(make_deferred());
  }
  const std::shared_ptr<DeferredReadback> readback = deferred_report();
  if (!readback) return llvm::Error::success();
  MINUET_ASSIGN(const llvm::ArrayRef<i32> report, readback->wait());
  const std::lock_guard<std::mutex> lock(counting_);
  // If deferred_ is null, another thread has already taken the report and may be reading rows_, which must
  // not be written again.
  if (!deferred_) return llvm::Error::success();
  MINUET_TRY(take_report(report));
  deferred_.reset();
  return llvm::Error::success();
}

Coords CoordinateSet::coords() const {
  const std::lock_guard<std::mutex> lock(counting_);
  Coords known = coords_;
  if (!finest_ && !deferred_) known.capacity = rows_;
  return known;
}

llvm::Error CoordinateSet::repack(MapEngine& engine, const CloudLayout* layout, Coords target,
                                  std::vector<DeviceMemory>& used) const {
  const Coords own = coords();
  const i32* coordinates = coordinates_;
  if (!coordinates) {
    const i64 fields = 1 + engines_->ndim();
    i32* words = nullptr;
    auto place = [&](Placement& parts) { words = parts.take<i32>(own.capacity * fields); };
    MINUET_ASSIGN(DeviceMemory unpacked, allocate_parts(memory_source(), place));
    used.push_back(std::move(unpacked));
    MINUET_TRY(engine->maps().unpack(own, state_.layout, words));
    coordinates = words;
  }
  BuildCoordsRequest request;
  request.coordinates = coordinates;
  request.count = coords_.count;
  request.most = own.capacity;
  request.layout = layout;
  request.coords = target;
  return engine->maps().build_coords(request);
}

llvm::Expected<std::shared_ptr<CoordinateSet>> CoordinateSet::downsample(const AxisArray& stride,
                                                                         void* stream) const {
  MINUET_TRY(check_stream(stream));
  std::shared_ptr<CoordinateSet> coarse(new CoordinateSet());
  coarse->engines_ = engines_;
  coarse->queue_ = queue_;
  MINUET_ASSIGN(coarse->tensor_stride_, coarser_stride(tensor_stride_, stride, engines_->ndim()));
  std::copy_n(guard_, kMaxDim, coarse->guard_);
  coarse->bounds_ = bounds_;
  for (i32 a = 0; a < engines_->ndim(); ++a) {
    const i64 least = floor_to_multiple(bounds_.least[a + 1], coarse->tensor_stride_[a]);
    if (least < INT_MIN) {
      return make_error(StatusCode::OutOfRange,
                        "axis {0}: the coarser set begins at {1}, which does not fit into 32 bits; move the "
                        "cloud towards the origin",
                        a, least);
    }
    coarse->bounds_.least[a + 1] = static_cast<i32>(least);
  }
  MINUET_TRY(coarse->allocate(coords().capacity, false));
  std::copy_n(period_, kMaxDim, coarse->period_);
  coarse->layout_ = layout_;
  coarse->key_bits_ = key_bits_;
  coarse->layout_memory_ = layout_memory_;
  coarse->state_.layout = state_.layout;
  coarse->coords_.key = coords_.key;
  if (family_) {
    MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(queue_.get()));
    MINUET_TRY(engine->begin_making(stream));
    MINUET_ASSIGN(const bool joined, join_family(*coarse));
    if (joined) return coarse;
  }
  return sort_coarser(std::move(coarse), stream);
}

llvm::Expected<bool> CoordinateSet::join_family(CoordinateSet& coarse) const {
  SetFamily& family = *family_;
  const std::size_t levels = family.deferred_sets.size() + 2;
  const i64 words = family.words + level_index_words(layout_, coarse.tensor_stride_);
  const bool joins = !family.is_made() && levels <= kMostIndexedLevels &&
                     words <= most_index_words(coarse.coords_.capacity) &&
                     strides_fit(period_, coarse.tensor_stride_, engines_->ndim());
  if (!joins) return false;
  if (!family.counts.data()) {
    auto place = [](Placement& parts) { parts.take<i32>(kMostReadbackWords); };
    MINUET_ASSIGN(family.counts, allocate_parts(memory_source(), place));
  }
  family.words = words;
  family.deferred_sets.push_back(coarse.weak_from_this());
  i32* const counts = reinterpret_cast<i32*>(family.counts.data());
  coarse.rows_at_ = static_cast<i64>(family.deferred_sets.size());
  coarse.coords_.count = counts + coarse.rows_at_;
  coarse.state_.status = reinterpret_cast<u32*>(counts);
  coarse.family_ = family_;
  coarse.finest_ = finest_ ? finest_ : shared_from_this();
  return true;
}

llvm::Error CoordinateSet::make_deferred() const {
  // make_family() resets finest_, so this copy keeps the finest set alive during the call.
  const std::shared_ptr<const CoordinateSet> finest = finest_;
  if (finest) return finest->make_deferred();
  if (!family_ || family_->deferred_sets.empty()) return llvm::Error::success();
  std::vector<std::shared_ptr<const CoordinateSet>> sets;
  for (const std::weak_ptr<const CoordinateSet>& deferred : family_->deferred_sets) {
    if (std::shared_ptr<const CoordinateSet> set = deferred.lock()) sets.push_back(std::move(set));
  }
  return sets.empty() ? llvm::Error::success() : make_family(sets);
}

/// Makes `sets` with one index of occupied cells. The function is called on the finest set of the family
/// (SetFamily), whose rows the index computes again.
llvm::Error CoordinateSet::make_family(llvm::ArrayRef<std::shared_ptr<const CoordinateSet>> sets) const {
  SetFamily& family = *family_;
  const Coords own = coords();
  const i64 most = std::max<i64>(own.capacity, 1);
  std::vector<IndexSetsRequest::Level> levels{{cell_stride(), own}};
  MapLimits limits{key_bits_, most, 0, 0, 1};
  for (const std::shared_ptr<const CoordinateSet>& set : sets) {
    levels.push_back({set->tensor_stride_, set->coords_});
  }
  i64 runs = 0;
  for (const IndexSetsRequest::Level& level : levels) {
    const i64 words = level_index_words(layout_, level.stride);
    limits.index_words += words;
    runs += most_level_runs(words, most);
  }
  limits.indexed_sets = static_cast<i32>(levels.size());
  MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(queue_.get()));
  MINUET_TRY(engine->begin_maps(limits, queue_->stream()));
  SetIndex index{state_.layout, own.key, {}};
  auto place_index = [&](Placement& parts) {
    index.cells = place_cell_index(parts, limits.index_words, runs);
  };
  MINUET_ASSIGN(DeviceMemory memory, allocate_parts(memory_source(), place_index));
  BuildCoordsRequest build;
  auto place_rows = [&](Placement& parts) {
    build.source_row = parts.take<i32>(most);
    build.row_of = parts.take<i32>(most);
  };
  // Only index_sets() uses these rows, so their memory is released when this function returns.
  MINUET_ASSIGN(const DeviceMemory rows, allocate_parts(memory_source(), place_rows));
  i32* const counts = reinterpret_cast<i32*>(family.counts.data());
  build.coordinates = coordinates_;
  build.count = own.count;
  build.most = own.capacity;
  build.layout = state_.layout;
  build.coords = own;
  build.status = reinterpret_cast<u32*>(counts);
  MINUET_TRY((*engine)->fill_words(counts, 0, kMostReadbackWords));
  MINUET_TRY((*engine)->maps().index_sets({build, own.count, index.cells, levels}));
  const i64 reported = 1 + static_cast<i64>(family.deferred_sets.size());
  MINUET_ASSIGN(const std::shared_ptr<DeferredReadback> readback,
                (*engine)->start_readback(counts, reported));
  family.memory = std::move(memory);
  family.index = index;
  family.deferred_sets.clear();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const CoordinateSet& set = *sets[i];
    set.level_ = static_cast<i32>(i) + 1;
    const std::lock_guard<std::mutex> lock(set.counting_);
    set.deferred_ = readback;
    set.finest_.reset();
  }
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<CoordinateSet>> CoordinateSet::sort_coarser(
    std::shared_ptr<CoordinateSet> coarse, void* stream) const {
  // If this set is still deferred, it is made first, because its keys are sorted below.
  if (finest_) MINUET_TRY(make_deferred());
  MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(queue_.get()));
  // Without a queue, this memory must outlive the read-back, because no stream orders its reuse.
  std::vector<DeviceMemory> used;
  Coords fine = coords();
  const i64 most = fine.capacity;
  const bool fits = strides_fit(period_, coarse->tensor_stride_, engines_->ndim());
  if (!fits) {
    MINUET_TRY(coarse->allocate_layout());
    std::copy_n(coarse->tensor_stride_.begin(), kMaxDim, coarse->period_);
    MINUET_ASSIGN(coarse->layout_, make_cloud_layout(engines_->ndim(), bounds_, guard_, coarse->period_));
    coarse->key_bits_ = rounded_key_bits(coarse->layout_);
    auto place = [&](Placement& parts) { fine = place_coords(parts, most, coarse->key_bits_); };
    MINUET_ASSIGN(DeviceMemory repacked, allocate_parts(memory_source(), place));
    used.push_back(std::move(repacked));
  }
  coarse->coords_.key = fine.key;
  const i32 sorts = fits ? 1 : 2;
  MINUET_TRY(engine->begin_maps({coarse->key_bits_, std::max<i64>(most, 1), sorts, 0, 1}, stream));
  if (fits) {
    MINUET_TRY((*engine)->fill_words(coarse->report_, 0, kReportWords));
  } else {
    MINUET_TRY(coarse->find_layout(*engine, nullptr, 0, &bounds_, coarse->key_bits_));
    MINUET_TRY(repack(*engine, coarse->state_.layout, fine, used));
  }
  MINUET_TRY((*engine)->maps().downsample(
      {fine, coarse->state_.layout, coarse->tensor_stride_, coarse->coords_, coarse->state_.status}));
  if (queue_) {
    MINUET_ASSIGN(coarse->deferred_, (*engine)->start_readback(coarse->report_, kBoundsAt));
    return coarse;
  }
  MINUET_TRY(coarse->read_report(*engine));
  MINUET_TRY(coarse->take_report(coarse->host_report_));
  return coarse;
}

llvm::Error CoordinateSet::export_coordinates(i32* coordinates, void* stream) const {
  MINUET_TRY(check_stream(stream));
  MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(queue_.get()));
  MINUET_TRY(engine->begin(stream));
  if (!row_of_) return (*engine)->maps().unpack(coords(), state_.layout, coordinates);
  const i32 fields = 1 + engines_->ndim();
  return (*engine)->permute_rows(
      {engine->permute_coordinates(), coordinates_, fields, row_of_, caller_rows_, coordinates, fields});
}

}  // namespace minuet
