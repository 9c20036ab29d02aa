#include "runtime/maps/coordinate_set.h"

#include <algorithm>

#include "runtime/maps/reached_levels.h"

namespace minuet {
namespace {

static_assert(kMostIndexedLevels <= kMostReadbackWords,
              "the readback must have room for a status and a count of each coarser set");

/// Places all memory of an index (voxel_index.h) that has room for capacities[l] rows in each level l.
void place_index(Placement& parts, llvm::ArrayRef<i64> capacities, IndexMemory& memory) {
  place_index_table(parts, capacities, memory);
  for (std::size_t l = 0; l < capacities.size(); ++l) {
    place_index_rows(parts, capacities[l], static_cast<i32>(l), memory);
    place_index_blocks(parts, capacities[l], static_cast<i32>(l), memory);
  }
}

/// Returns the error that the status of a set that is reached from another one reports, if any.
llvm::Error check_reached_status(u32 status) {
  if ((status & (kStatusOutsideKeys | kStatusOutOfBounds)) != 0) {
    return make_error(
        StatusCode::OutOfRange,
        "a coordinate is too far from the origin, or its batch index too large, for the set that is "
        "reached from it: declare the bounds of the cloud when you create its first set");
  }
  if ((status & (kStatusIndexFull | kStatusPastCapacity)) != 0) {
    return too_many_reached();
  }
  return llvm::Error::success();
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
    coords_ = {nullptr, word(kRowsAt), capacity};
    source_row_ = from_caller ? parts.take<i32>(capacity) : nullptr;
    row_of_ = from_caller ? parts.take<i32>(capacity) : nullptr;
    coordinates_ = from_caller ? parts.take<i32>(capacity * fields) : nullptr;
  };
  MINUET_ASSIGN(memory_, allocate_parts(memory_source(), place));
  return llvm::Error::success();
}

llvm::Error CoordinateSet::allocate_index(i64 capacity) {
  index_capacity_ = capacity;
  auto place = [&](Placement& parts) { place_index(parts, {capacity}, index_); };
  MINUET_ASSIGN(index_memory_, allocate_parts(memory_source(), place));
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
  set->has_bounds_ = options.has_bounds;
  set->bounds_ = options.has_bounds ? options.bounds : default_index_bounds(set->engines_->ndim());
  MINUET_TRY(set->check_stream(stream));
  MINUET_ASSIGN(const MapEngines::Lease engine, set->engines_->take(set->queue_.get()));
  // A stream that is being captured is refused before any allocation.
  MINUET_TRY(engine->begin_making(stream));
  MINUET_TRY(set->allocate(count, true));
  MINUET_TRY(set->allocate_index(std::max<i64>(count, 1)));
  MINUET_TRY(set->build(*engine, coordinates, count, stream));
  MINUET_TRY(set->read_report(*engine));
  if ((static_cast<u32>(set->host_report_[0]) & kStatusOutsideKeys) != 0) {
    MINUET_TRY(set->find_bounds(*engine, coordinates, count));
    MINUET_TRY(set->build(*engine, coordinates, count, stream));
    MINUET_TRY(set->read_report(*engine));
  }
  MINUET_TRY(set->take_report(set->host_report_));
  MINUET_TRY(check_duplicates(set->rows_, count, options.keep_first_duplicate));
  if (set->queue_) set->family_ = std::make_shared<SetFamily>();
  set->level_ = 0;
  return set;
}

llvm::Error CoordinateSet::find_bounds(MapEngine& engine, const i32* coordinates, i64 count) {
  MINUET_TRY(engine->maps().find_bounds(coordinates, count, state_));
  MINUET_TRY(read_report(engine));
  bounds_ = read_bounds(host_report_ + kBoundsAt);
  return llvm::Error::success();
}

llvm::Error CoordinateSet::build(MapEngine& engine, const i32* coordinates, i64 count, void* stream) {
  MINUET_TRY(engine.begin_making(stream));
  MINUET_TRY(engine->fill_words(report_, 0, kReportWords));
  MINUET_TRY(index_alone(engine, coordinates, nullptr, count, row_of_));
  // The call of unpack() stores the coordinates in the order of the rows, so that coarser sets can be made
  // from them. `built` keeps the allocated capacity, because the host does not know the number of rows
  // yet, and coords() would return a capacity of 0.
  Coords built = coords_;
  built.side = side();
  return engine->maps().unpack(built, nullptr, coordinates_);
}

llvm::Error CoordinateSet::index_alone(MapEngine& engine, const i32* coordinates, const i32* given_count,
                                       i64 most, i32* row_of) {
  MINUET_TRY(clear_index(*engine, index_));
  IndexSetsRequest request;
  request.coordinates = coordinates;
  request.given_count = given_count;
  request.most = most;
  request.outside_status = has_bounds_ ? kStatusOutOfBounds : kStatusOutsideKeys;
  request.status = state_.status;
  request.points = state_.points;
  request.source_row = source_row_;
  request.row_of = row_of;
  MINUET_ASSIGN(request.description, describe({voxel_stride()}));
  assign_memory(request.description, index_, {index_capacity_});
  request.memory = index_;
  i32* const count = coords_.count;
  request.counts = count;
  return engine->maps().index_sets(request);
}

llvm::Error CoordinateSet::read_report(MapEngine& engine) {
  return engine.read_words(host_report_, report_, kReportWords);
}

llvm::Error CoordinateSet::take_report(llvm::ArrayRef<i32> report) const {
  if (index_level_ > 0) MINUET_TRY(check_reached_status(static_cast<u32>(report[0])));
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

IndexSide CoordinateSet::side() const {
  const bool in_family = family_ && family_->is_made() && level_ >= 0;
  return {in_family ? family_->index.index : index_.index, in_family ? level_ : index_level_};
}

llvm::Expected<VoxelIndex> CoordinateSet::describe(llvm::ArrayRef<AxisArray> strides) const {
  std::vector<SetSpec> sets;
  for (const AxisArray& stride : strides) {
    SetSpec& set = sets.emplace_back();
    set.tensor_stride = stride;
    if (sets.size() > 1) set.parent = 0;
  }
  return describe_index(engines_->ndim(), bounds_, sets);
}

Coords CoordinateSet::coords() const {
  const std::lock_guard<std::mutex> lock(counting_);
  Coords known = coords_;
  known.side = side();
  if (!finest_ && !deferred_) known.capacity = rows_;
  return known;
}

llvm::Expected<std::shared_ptr<CoordinateSet>> CoordinateSet::describe_coarser(
    const AxisArray& stride) const {
  std::shared_ptr<CoordinateSet> coarse(new CoordinateSet());
  coarse->engines_ = engines_;
  coarse->queue_ = queue_;
  MINUET_ASSIGN(coarse->tensor_stride_, coarser_stride(tensor_stride_, stride, engines_->ndim()));
  coarse->has_bounds_ = has_bounds_;
  coarse->bounds_ = bounds_;
  // This call fails if a coordinate that is rounded down to the stride would leave the range of int32.
  MINUET_TRY(coarse->describe({coarse->tensor_stride_}).takeError());
  // Coordinates of the coarser set are multiples of its stride, so that they may be less than those of this
  // set.
  for (i32 a = 0; a < engines_->ndim(); ++a) {
    coarse->bounds_.least[a + 1] =
        static_cast<i32>(floor_to_multiple(bounds_.least[a + 1], coarse->tensor_stride_[a]));
  }
  return coarse;
}

llvm::Expected<std::shared_ptr<CoordinateSet>> CoordinateSet::downsample(const AxisArray& stride,
                                                                         void* stream) const {
  MINUET_TRY(check_stream(stream));
  MINUET_ASSIGN(std::shared_ptr<CoordinateSet> coarse, describe_coarser(stride));
  {
    MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(queue_.get()));
    MINUET_TRY(engine->begin_making(stream));
    MINUET_TRY(coarse->allocate(coords().capacity, false));
    MINUET_ASSIGN(const bool joined, family_ ? join_family(*coarse) : false);
    if (joined) return coarse;
  }
  MINUET_TRY(index_coarser(*coarse, stream));
  return coarse;
}

llvm::Expected<bool> CoordinateSet::join_family(CoordinateSet& coarse) const {
  SetFamily& family = *family_;
  if (family.is_made() || family.deferred_sets.size() + 2 > kMostIndexedLevels) return false;
  if (!family.counts.data()) {
    auto place = [](Placement& parts) { parts.take<i32>(SetFamily::kCountWords); };
    MINUET_ASSIGN(family.counts, allocate_parts(memory_source(), place));
  }
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
  // This copy keeps the finest set alive during the call, because make_family() resets finest_.
  const std::shared_ptr<const CoordinateSet> finest = finest_;
  if (finest) return finest->make_deferred();
  if (!family_ || family_->deferred_sets.empty()) return llvm::Error::success();
  std::vector<std::shared_ptr<const CoordinateSet>> sets;
  for (const std::weak_ptr<const CoordinateSet>& deferred : family_->deferred_sets) {
    if (std::shared_ptr<const CoordinateSet> set = deferred.lock()) sets.push_back(std::move(set));
  }
  return sets.empty() ? llvm::Error::success() : make_family(sets);
}

/// Makes `sets` with one index of voxels. The function is called on the finest set of the family
/// (SetFamily), whose rows the index computes again.
llvm::Error CoordinateSet::make_family(llvm::ArrayRef<std::shared_ptr<const CoordinateSet>> sets) const {
  SetFamily& family = *family_;
  const Coords own = coords();
  const i64 most = std::max<i64>(own.capacity, 1);
  i32* const counts = reinterpret_cast<i32*>(family.counts.data());
  // The two scratch words receive the number of coordinates and the number of this set's rows.
  i32* const scratch = counts + kMostReadbackWords;
  std::vector<AxisArray> strides{voxel_stride()};
  std::vector<i32*> level_counts{scratch + 1};
  for (const std::shared_ptr<const CoordinateSet>& set : sets) {
    strides.push_back(set->tensor_stride_);
    level_counts.push_back(set->coords_.count);
  }
  const std::vector<i64> capacities(strides.size(), most);
  IndexSetsRequest request;
  MINUET_ASSIGN(request.description, describe(strides));
  // The engine is taken before any allocation, because begin_making() refuses a stream that is being
  // captured.
  MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(queue_.get()));
  MINUET_TRY(engine->begin_making(queue_->stream()));
  auto place = [&](Placement& parts) { place_index(parts, capacities, request.memory); };
  MINUET_ASSIGN(DeviceMemory memory, allocate_parts(memory_source(), place));
  auto place_rows = [&](Placement& parts) { request.row_of = parts.take<i32>(most); };
  // Only index_sets() uses these rows, so their memory is released when this function returns.
  MINUET_ASSIGN(const DeviceMemory rows, allocate_parts(memory_source(), place_rows));
  assign_memory(request.description, request.memory, capacities);
  request.coordinates = coordinates_;
  request.given_count = own.count;
  request.most = own.capacity;
  request.outside_status = kStatusOutsideKeys;
  request.status = reinterpret_cast<u32*>(counts);
  request.points = scratch;
  request.counts = level_counts;
  MINUET_TRY((*engine)->fill_words(counts, 0, SetFamily::kCountWords));
  MINUET_TRY(clear_index(**engine, request.memory));
  MINUET_TRY((*engine)->maps().index_sets(request));
  const i64 reported = 1 + static_cast<i64>(family.deferred_sets.size());
  MINUET_ASSIGN(const std::shared_ptr<DeferredReadback> readback,
                (*engine)->start_readback(counts, reported));
  family.memory = std::move(memory);
  family.index = request.memory;
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

llvm::Error CoordinateSet::index_coarser(CoordinateSet& coarse, void* stream) const {
  if (finest_) MINUET_TRY(make_deferred());
  MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(queue_.get()));
  MINUET_TRY(engine->begin_making(stream));
  const Coords fine = coords();
  const i64 most = fine.capacity, fields = 1 + engines_->ndim();
  i32 *unpacked = nullptr, *row_of = nullptr;
  auto place = [&](Placement& parts) {
    unpacked = parts.take<i32>(most * fields);
    row_of = parts.take<i32>(std::max<i64>(most, 1));
  };
  // Without a queue, this memory must outlive the read-back, because no stream orders its reuse.
  MINUET_ASSIGN(const DeviceMemory used, allocate_parts(memory_source(), place));
  MINUET_TRY(coarse.allocate_index(std::max<i64>(most, 1)));
  if (!coordinates_) MINUET_TRY((*engine)->maps().unpack(fine, nullptr, unpacked));
  MINUET_TRY((*engine)->fill_words(coarse.report_, 0, kReportWords));
  MINUET_TRY(coarse.index_alone(*engine, coordinates_ ? coordinates_ : unpacked, fine.count, most, row_of));
  if (queue_) {
    MINUET_ASSIGN(coarse.deferred_, (*engine)->start_readback(coarse.report_, kBoundsAt));
    return llvm::Error::success();
  }
  MINUET_TRY(coarse.read_report(*engine));
  return coarse.take_report(coarse.host_report_);
}

std::vector<SetSpec> CoordinateSet::reached_levels(const ReachSpec& reach, const AxisArray& tensor_stride,
                                                   const AxisArray& shape) const {
  std::vector<SetSpec> levels(2);
  levels[0].tensor_stride = voxel_stride();
  levels[1].tensor_stride = tensor_stride;
  levels[1].parent = 0;
  levels[1].shape = shape;
  levels[1].reach = reach;
  // The steps of the op are in units of this set's tensor stride, and those of the index in units of the
  // voxels of its first level. Those of a generative op are in units of the new set's tensor stride in both.
  for (i32 a = 0; a < engines_->ndim() && !reach.is_generative; ++a) {
    const i32 scale = tensor_stride_[a] / voxel_stride()[a];
    levels[1].reach->dilation[a] *= scale;
    levels[1].reach->padding[a] *= scale;
  }
  return levels;
}

llvm::Error CoordinateSet::index_reached(MapEngine& engine, CoordinateSet& reached,
                                         llvm::ArrayRef<SetSpec> levels, const Bounds& bounds,
                                         i64 capacity) const {
  const Coords fine = coords();
  const i64 rows = std::max<i64>(fine.capacity, 1), fields = 1 + engines_->ndim();
  i32 *unpacked = nullptr, *row_of = nullptr, *words = nullptr;
  auto place_scratch = [&](Placement& parts) {
    unpacked = parts.take<i32>(coordinates_ ? 0 : rows * fields);
    row_of = parts.take<i32>(rows);
    words = parts.take<i32>(1);
  };
  // Without a queue, this memory must outlive the read-back, because no stream orders its reuse.
  MINUET_ASSIGN(const DeviceMemory scratch, allocate_parts(memory_source(), place_scratch));
  auto place = [&](Placement& parts) { place_index(parts, {rows, capacity}, reached.index_); };
  MINUET_ASSIGN(reached.index_memory_, allocate_parts(memory_source(), place));
  reached.index_level_ = 1;
  if (!coordinates_) MINUET_TRY(engine->maps().unpack(fine, nullptr, unpacked));
  MINUET_TRY(engine->fill_words(reached.report_, 0, kReportWords));
  MINUET_TRY(clear_index(*engine, reached.index_));
  IndexSetsRequest request;
  request.coordinates = coordinates_ ? coordinates_ : unpacked;
  request.given_count = fine.count;
  request.most = fine.capacity;
  request.outside_status = kStatusOutsideKeys;
  request.status = reached.state_.status;
  request.points = reached.state_.points;
  request.row_of = row_of;
  MINUET_ASSIGN(request.description, describe_index(engines_->ndim(), bounds, levels));
  assign_memory(request.description, reached.index_, {rows, capacity});
  request.memory = reached.index_;
  i32* const counts[] = {words, reached.coords_.count};
  request.counts = counts;
  const std::vector<LevelSources> sources{sources_of(engines_->ndim(), levels, 1)};
  request.sources = sources;
  MINUET_TRY(engine->fill_words(words, 0, 1));
  MINUET_TRY(engine->maps().index_sets(request));
  if (!queue_) {
    MINUET_TRY(reached.read_report(engine));
    const bool is_outside = (static_cast<u32>(reached.host_report_[0]) & kStatusOutsideKeys) != 0;
    if (!is_outside || has_bounds_) return llvm::Error::success();
    // The undeclared bounds were narrowed too far, so the actual ones are found.
    MINUET_TRY(engine->fill_words(reached.report_, 0, kReportWords));
    llvm::Error error = reached.find_bounds(engine, request.coordinates, fine.capacity);
    reached.host_report_[0] = static_cast<i32>(kStatusOutsideKeys);
    return error;
  }
  MINUET_ASSIGN(reached.deferred_, engine->start_readback(reached.report_, kBoundsAt));
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<CoordinateSet>> CoordinateSet::reach(const ReachSpec& reach,
                                                                    const AxisArray& stride,
                                                                    const AxisArray& shape,
                                                                    void* stream) const {
  const i32 ndim = engines_->ndim();
  MINUET_TRY(check_stream(stream));
  MINUET_TRY(check_reach(ndim, reach, stride, tensor_stride_));
  MINUET_ASSIGN(const AxisArray tensor_stride, reach.is_generative
                                                   ? finer_stride(tensor_stride_, stride, ndim)
                                                   : coarser_stride(tensor_stride_, stride, ndim));
  const std::vector<SetSpec> levels =
      rounded_where_equal(ndim, bounds_, reached_levels(reach, tensor_stride, shape));
  if (!levels[1].reach) return round_down(stride, stream);
  std::shared_ptr<CoordinateSet> reached(new CoordinateSet());
  reached->engines_ = engines_;
  reached->queue_ = queue_;
  reached->tensor_stride_ = tensor_stride;
  reached->has_bounds_ = has_bounds_;
  Bounds bounds = has_bounds_ ? bounds_ : narrowed(ndim, bounds_, levels);
  bool are_actual = false;
  MINUET_ASSIGN(std::vector<Bounds> ranges, bounds_of_sets(ndim, bounds, levels));
  reached->bounds_ = ranges[1];
  if (finest_) MINUET_TRY(make_deferred());
  MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(queue_.get()));
  MINUET_TRY(engine->begin_making(stream));
  const i64 rows = std::max<i64>(coords().capacity, 1);
  ReachedLevels estimates(ndim, levels, kMaxCoordinates, /*batch_size=*/0);
  // Only a call that waits can find out that memory for fewer rows is enough.
  if (queue_) estimates.expect_most();
  for (;;) {
    const i64 capacity = estimates.estimated_rows(1, rows);
    MINUET_TRY(reached->allocate(capacity, false));
    MINUET_TRY(index_reached(*engine, *reached, levels, bounds, capacity));
    if (queue_) return reached;
    const u32 status = static_cast<u32>(reached->host_report_[0]);
    const i32 reported[] = {1, reached->host_report_[kRowsAt]};
    if ((status & kStatusOutsideKeys) != 0 && !has_bounds_ && !are_actual) {
      // index_reached() has found the bounds of this set's coordinates.
      bounds = reached->bounds_;
      are_actual = true;
      MINUET_ASSIGN(ranges, bounds_of_sets(ndim, bounds, levels));
      reached->bounds_ = ranges[1];
    } else if ((status & (kStatusPastCapacity | kStatusIndexFull)) == 0 || !estimates.raise(reported, rows)) {
      break;
    }
    MINUET_TRY(engine->begin_making(stream));
  }
  MINUET_TRY(reached->take_report(reached->host_report_));
  return reached;
}

llvm::Expected<std::shared_ptr<CoordinateSet>> CoordinateSet::round_down(const AxisArray& stride,
                                                                         void* stream) const {
  MINUET_ASSIGN(std::shared_ptr<CoordinateSet> coarse, describe_coarser(stride));
  if (finest_) MINUET_TRY(make_deferred());
  {
    MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(queue_.get()));
    MINUET_TRY(engine->begin_making(stream));
    MINUET_TRY(coarse->allocate(coords().capacity, false));
  }
  MINUET_TRY(index_coarser(*coarse, stream));
  return coarse;
}

llvm::Error CoordinateSet::export_coordinates(i32* coordinates, void* stream) const {
  MINUET_TRY(check_stream(stream));
  MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(queue_.get()));
  MINUET_TRY(engine->begin(stream));
  if (!row_of_) return (*engine)->maps().unpack(coords(), nullptr, coordinates);
  const i32 fields = 1 + engines_->ndim();
  return (*engine)->permute_rows(
      {engine->permute_coordinates(), coordinates_, fields, row_of_, caller_rows_, coordinates, fields});
}

}  // namespace minuet
