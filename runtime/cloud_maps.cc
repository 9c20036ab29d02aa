#include "runtime/cloud_maps.h"

#include <algorithm>
#include <numeric>

namespace minuet {

CloudMaps::CloudMaps(const Program& program, const CloudMapOptions& options, Engine& engine)
    : program_(program), options_(options), engine_(engine), levels_(program.levels.size()) {
  report_words_ += static_cast<i64>(program.levels.size());
  for (const MapSpec& spec : program.maps) {
    MapView map;
    map.geometry =
        make_geometry(program.ndim, spec.kernel_size, spec.dilation, program.levels[spec.fine].tensor_stride);
    report_offset_.push_back(report_words_);
    report_words_ += map.geometry.volume;
    maps_.push_back(map);
  }
}

llvm::Error CloudMaps::allocate_host() {
  auto words = [&](i64 count) { return engine_.allocate_pinned(count * static_cast<i64>(sizeof(i32))); };
  MINUET_ASSIGN(void* report, words(report_words_));
  MINUET_ASSIGN(void* bounds, words(kBoundsWords));
  host_report_ = static_cast<i32*>(report);
  host_bounds_ = static_cast<i32*>(bounds);
  return llvm::Error::success();
}

MapLimits CloudMaps::limits(KeyType key) const {
  MapLimits limits{key, capacity_, static_cast<i32>(levels_.size()), static_cast<i32>(maps_.size()), 1};
  for (const MapView& map : maps_) limits.max_volume = std::max(limits.max_volume, map.geometry.volume);
  return limits;
}

i64 CloudMaps::most_coordinates() const {
  return std::min(kMaxCoordinates, most_map_rows(limits(KeyType::U64).max_volume));
}

llvm::Error CloudMaps::check_count(i64 count) const {
  return check_cloud_rows(count, limits(KeyType::U64).max_volume);
}

void CloudMaps::place(Placement& parts) {
  bounds_words_ = parts.take<i32>(kBoundsWords);
  report_ = parts.take<i32>(report_words_);
  identity_ = parts.take<i32>(capacity_);
  source_row_ = parts.take<i32>(capacity_);
  row_of_ = parts.take<i32>(capacity_);
  coordinates_ = parts.take<i32>(capacity_ * (1 + program_.ndim));
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    levels_[i] = {parts.take<u64>(capacity_), report_ ? report_ + 1 + i : nullptr, capacity_};
  }
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    MapView& map = maps_[i];
    map.counts = report_ ? report_ + report_offset_[i] : nullptr;
    if (program_.maps[i].is_identity()) continue;
    const i64 entries = map.geometry.volume * levels_[program_.maps[i].coarse].capacity;
    map.rows = parts.take<i32>(entries);
    map.positions = parts.take<i32>(entries + 1);
  }
  map_workspace_ = parts.take<char>(engine_.map_workspace_bytes(limits(KeyType::U64)));
}

llvm::Error CloudMaps::fill(Device& device) {
  std::vector<i32> identity(static_cast<std::size_t>(capacity_));
  std::iota(identity.begin(), identity.end(), 0);
  return device.upload(identity_, identity.data(), capacity_ * static_cast<i64>(sizeof(i32)));
}

/// Declared bounds need no read-back; others cost the first of the two waits.
llvm::Error CloudMaps::find_layout(const i32* coordinates, i64 count) {
  bounds_ = options_.has_bounds ? options_.bounds : Bounds{};
  if (!options_.has_bounds && count > 0) {
    MINUET_TRY(engine_.find_bounds(coordinates, count, bounds_words_));
    MINUET_TRY(engine_.read_back(host_bounds_, bounds_words_, kBoundsWords * static_cast<i64>(sizeof(i32))));
    MINUET_TRY(engine_.wait());
    bounds_ = read_bounds(host_bounds_);
  }
  i64 guard[kMaxDim], period[kMaxDim];
  layout_needs(program_, guard, period);
  MINUET_ASSIGN(layout_, make_cloud_layout(program_.ndim, bounds_, guard, period));
  return llvm::Error::success();
}

llvm::Error CloudMaps::build(const i32* coordinates, i64 count) {
  MINUET_TRY(enqueue(coordinates, count));
  return read_report(count);
}

llvm::Error CloudMaps::enqueue(const i32* coordinates, i64 count) {
  // Room is there for capacity_; the work is the cloud's, however large the clouds before it were.
  MapLimits limits = this->limits(key_type_of(layout_));
  limits.capacity = std::max<i64>(count, 1);
  for (Coords& level : levels_) level.capacity = limits.capacity;
  MINUET_TRY(engine_.begin_maps(limits, map_workspace_));
  MINUET_TRY(engine_.fill_words(report_, 0, report_words_));

  BuildCoordsRequest build;
  build.coordinates = coordinates;
  build.count = count;
  build.layout = layout_;
  build.bounds = bounds_;
  build.coords = levels_[0];
  build.source_row = source_row_;
  build.row_of = row_of_;
  build.status = reinterpret_cast<u32*>(report_);
  MINUET_TRY(engine_.build_coords(build));
  for (std::size_t i = 1; i < levels_.size(); ++i) {
    const LevelSpec& spec = program_.levels[i];
    MINUET_TRY(engine_.downsample({levels_[spec.parent], layout_, spec.tensor_stride, levels_[i]}));
  }
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    if (spec.is_identity()) continue;
    MINUET_TRY(engine_.search({levels_[spec.fine], levels_[spec.coarse], layout_, 0, &maps_[i]}));
    MINUET_TRY(engine_.count_pairs(levels_[spec.coarse], maps_[i]));
  }
  return llvm::Error::success();
}

/// The one read-back of counts.
llvm::Error CloudMaps::read_report(i64 count) {
  MINUET_TRY(engine_.read_back(host_report_, report_, report_words_ * static_cast<i64>(sizeof(i32))));
  MINUET_TRY(engine_.wait());
  MINUET_TRY(check_coordinate_status(static_cast<u32>(host_report_[0])));
  MINUET_TRY(check_duplicates(rows(0), count, options_.keep_first_duplicate));
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    maps_[i].sources = rows(spec.fine);
    maps_[i].queries = rows(spec.coarse);
    if (spec.is_identity()) host_report_[report_offset_[i]] = static_cast<i32>(maps_[i].queries);
  }
  return llvm::Error::success();
}

llvm::Error CloudMaps::unpack(i32 level, i32* coordinates) const {
  return engine_.unpack(levels_[level], layout_, coordinates);
}

}  // namespace minuet
