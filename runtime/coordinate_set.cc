#include "runtime/coordinate_set.h"

#include <algorithm>
#include <climits>

#include "runtime/plan.h"

namespace minuet {
namespace {

constexpr i64 kLeastPinnedWords = 1024;
constexpr i64 kCommonPeriod = 64;  // strides that divide it need no new layout

/// True where flooring a key of this period to `stride` floors the coordinate and stays inside its guard.
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
                        "axis {0}: stride {1} on tensor stride {2}; the product must be 1 to 2^24", a,
                        stride[a], tensor_stride[a]);
    }
    coarse[a] = static_cast<i32>(product);
  }
  return coarse;
}

}  // namespace

llvm::Expected<std::shared_ptr<MapService>> MapService::create(std::shared_ptr<Device> device,
                                                               KernelCache& cache, i32 ndim) {
  const EngineChoice choice = choose_engine(ndim);
  const PermuteRowsSpec permute = choose_permute_coordinates(ndim);
  if (!device->info().arch.empty()) {
    std::vector<KernelSource> sources = sources_of(choice.map32);
    for (KernelSource& source : sources_of(choice.map64)) sources.push_back(std::move(source));
    sources.push_back(emit(permute));
    const std::string& arch = device->info().arch;
    MINUET_ASSIGN(const BinaryList binaries, compile_list(cache, sources, arch));
    MINUET_TRY(device->load(binaries,
                            [&](const Binary& refused) { return recompile(cache, sources, arch, refused); }));
  }
  auto service = std::make_shared<MapService>();
  service->device_ = device;
  service->ndim_ = ndim;
  MINUET_ASSIGN(service->engine_, device->create_engine(choice));
  MINUET_ASSIGN(service->permute_coordinates_, service->engine_->add_permute_rows(permute));
  return service;
}

llvm::Error MapService::begin_maps(const MapLimits& limits, void* stream) {
  MINUET_TRY(engine_->begin(stream));
  const i64 bytes = engine_->map_workspace_bytes(limits);
  if (bytes > workspace_.bytes()) {
    workspace_ = DeviceMemory();
    MINUET_ASSIGN(workspace_, DeviceMemory::create(device_, with_slack(bytes)));
  }
  return engine_->begin_maps(limits, workspace_.data());
}

llvm::Error MapService::read_words(i32* host, const i32* source, i64 words) {
  if (words > pinned_words_) {
    const i64 grown = std::max<i64>(2 * words, kLeastPinnedWords);  // the engine keeps the smaller block too
    llvm::Expected<void*> pinned = engine_->allocate_pinned(grown * static_cast<i64>(sizeof(i32)));
    if (!pinned) {
      // What is enqueued uses the workspace, which the next caller gets as soon as the lock is free.
      return llvm::joinErrors(pinned.takeError(), engine_->wait());
    }
    pinned_ = static_cast<i32*>(*pinned);
    pinned_words_ = grown;
  }
  MINUET_TRY(engine_->read_back(pinned_, source, words * static_cast<i64>(sizeof(i32))));
  MINUET_TRY(engine_->wait());
  std::copy_n(pinned_, words, host);
  return llvm::Error::success();
}

llvm::Error CoordinateSet::allocate(i64 capacity, bool from_caller) {
  const i64 fields = 1 + service_->ndim();
  auto place = [&](Placement& parts) {
    coords_ = place_coords(parts, capacity);
    status_ = parts.take<i32>(1 + kBoundsWords);
    source_row_ = from_caller ? parts.take<i32>(capacity) : nullptr;
    row_of_ = from_caller ? parts.take<i32>(capacity) : nullptr;
    coordinates_ = parts.take<i32>(capacity * fields);
  };
  MINUET_ASSIGN(memory_, allocate_parts(service_->device(), place));
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<CoordinateSet>> CoordinateSet::create(std::shared_ptr<MapService> service,
                                                                     const CoordinateSetOptions& options,
                                                                     const i32* coordinates, i64 count,
                                                                     void* stream) {
  MINUET_TRY(check_coordinate_count(count));
  std::shared_ptr<CoordinateSet> set(new CoordinateSet());
  set->service_ = std::move(service);
  set->tensor_stride_ = options.tensor_stride;
  set->caller_rows_ = count;
  set->bounds_ = options.bounds;
  std::copy_n(options.max_offset, kMaxDim, set->guard_);
  MINUET_TRY(set->allocate(count, true));

  const auto lock = set->service_->lock();
  Engine& engine = set->service_->engine();
  if (!options.has_bounds && count > 0) {
    i32 words[kBoundsWords];
    MINUET_TRY(engine.begin(stream));
    MINUET_TRY(engine.find_bounds(coordinates, count, set->status_ + 1));
    MINUET_TRY(set->service_->read_words(words, set->status_ + 1, kBoundsWords));
    set->bounds_ = read_bounds(words);
  }
  MINUET_TRY(set->build(coordinates, count, stream));
  MINUET_TRY(check_duplicates(set->rows_, count, options.keep_first_duplicate));
  return set;
}

llvm::Error CoordinateSet::build(const i32* coordinates, i64 count, void* stream) {
  std::fill_n(period_, kMaxDim, kCommonPeriod);
  MINUET_ASSIGN(const KeyLayout layout, make_cloud_layout(service_->ndim(), bounds_, guard_, period_));
  Engine& engine = service_->engine();
  MINUET_TRY(service_->begin_maps({key_type_of(layout), std::max<i64>(count, 1), 1, 0, 1}, stream));
  MINUET_TRY(engine.fill_words(status_, 0, 1));
  BuildCoordsRequest request;
  request.coordinates = coordinates;
  request.count = count;
  request.layout = layout;
  request.bounds = bounds_;
  request.coords = coords_;
  request.source_row = source_row_;
  request.row_of = row_of_;
  request.status = reinterpret_cast<u32*>(status_);
  MINUET_TRY(engine.build_coords(request));
  i32 status = 0;
  MINUET_TRY(service_->read_words(&status, status_, 1));
  MINUET_TRY(check_coordinate_status(static_cast<u32>(status)));
  return finish(layout);
}

/// Reads the count back and keeps the coordinates in ascending order, for any later layout.
llvm::Error CoordinateSet::finish(const KeyLayout& layout) {
  layout_ = layout;
  MINUET_TRY(service_->engine().unpack(coords_, layout_, coordinates_));
  i32 rows = 0;
  MINUET_TRY(service_->read_words(&rows, coords_.count, 1));
  rows_ = rows;
  coords_.capacity = rows;  // what later maps have to make room for
  return llvm::Error::success();
}

llvm::Error CoordinateSet::repack(const KeyLayout& layout, const Bounds& bounds, Coords target) const {
  BuildCoordsRequest request;
  request.coordinates = coordinates_;
  request.count = rows_;
  request.layout = layout;
  request.bounds = bounds;
  request.coords = target;
  request.status = reinterpret_cast<u32*>(status_);
  return service_->engine().build_coords(request);
}

llvm::Expected<std::shared_ptr<CoordinateSet>> CoordinateSet::downsample(const AxisArray& stride,
                                                                         void* stream) const {
  std::shared_ptr<CoordinateSet> coarse(new CoordinateSet());
  coarse->service_ = service_;
  MINUET_ASSIGN(coarse->tensor_stride_, coarser_stride(tensor_stride_, stride, service_->ndim()));
  std::copy_n(guard_, kMaxDim, coarse->guard_);
  coarse->bounds_ = bounds_;
  for (i32 a = 0; a < service_->ndim(); ++a) {
    const i64 least = floor_to_multiple(bounds_.least[a + 1], coarse->tensor_stride_[a]);
    if (least < INT_MIN) {
      return make_error(StatusCode::OutOfRange,
                        "axis {0}: the coarser coordinates leave 32 bits; move the cloud", a);
    }
    coarse->bounds_.least[a + 1] = static_cast<i32>(least);
  }
  MINUET_TRY(coarse->allocate(rows_, false));

  const auto lock = service_->lock();
  Engine& engine = service_->engine();
  Coords fine = coords_;
  KeyLayout layout = layout_;
  DeviceMemory repacked;
  std::copy_n(period_, kMaxDim, coarse->period_);
  if (!strides_fit(period_, coarse->tensor_stride_, service_->ndim())) {
    std::copy_n(coarse->tensor_stride_.begin(), kMaxDim, coarse->period_);
    MINUET_ASSIGN(layout, make_cloud_layout(service_->ndim(), bounds_, guard_, coarse->period_));
    auto place = [&](Placement& parts) { fine = place_coords(parts, rows_); };
    MINUET_ASSIGN(repacked, allocate_parts(service_->device(), place));
  }
  MINUET_TRY(service_->begin_maps({key_type_of(layout), std::max<i64>(rows_, 1), 2, 0, 1}, stream));
  if (repacked.data()) MINUET_TRY(repack(layout, bounds_, fine));
  MINUET_TRY(engine.downsample({fine, layout, coarse->tensor_stride_, coarse->coords_}));
  MINUET_TRY(coarse->finish(layout));
  coarse->caller_rows_ = coarse->rows_;
  return coarse;
}

llvm::Error CoordinateSet::export_coordinates(i32* coordinates, void* stream) const {
  const auto lock = service_->lock();
  Engine& engine = service_->engine();
  MINUET_TRY(engine.begin(stream));
  if (!row_of_) return engine.unpack(coords_, layout_, coordinates);
  const i32 fields = 1 + service_->ndim();
  return engine.permute_rows(service_->permute_coordinates(), coordinates_, fields, row_of_, caller_rows_,
                             coordinates, fields);
}

}  // namespace minuet
