#include "runtime/maps/network_maps.h"

#include <algorithm>
#include <numeric>

#include "runtime/engine/set_index.h"
#include "runtime/maps/coordinate_limits.h"

namespace minuet {
namespace {

/// Returns the number of offsets of the largest kernel map, or 1 if there is no map.
i32 most_offsets(const Program& program) {
  return static_cast<i32>(std::max<i64>(largest_volume(program), 1));
}

/// Returns the largest number of rows that a level may have.
i64 most_level_rows(const Program& program) {
  return std::min(kMaxCoordinates, most_map_rows(most_offsets(program)));
}

/// Returns true if every row of the map's finer level lies in the voxel of exactly one row of the coarser
/// level, to which one offset leads.
bool fills_voxels(const Program& program, llvm::ArrayRef<SetSpec> sets, const MapSpec& spec) {
  const auto coarse = static_cast<std::size_t>(spec.coarse);
  if (coarse >= sets.size() || sets[coarse].parent != spec.fine || sets[coarse].is_reached_or_combined())
    return false;
  // The offsets of a centred kernel of one or two cells begin at 0, as those of one without padding do.
  const bool starts_at_0 = !spec.padding || *spec.padding == AxisArray{};
  return starts_at_0 && spec.offsets.empty() &&
         minuet::fills_voxels(program.ndim, spec.kernel_size, spec.dilation, sets[spec.fine].tensor_stride,
                              sets[coarse].tensor_stride);
}

}  // namespace

Bounds bounds_to_index(i32 ndim, const NetworkMapOptions& options, llvm::ArrayRef<SetSpec> sets) {
  if (options.has_bounds) return options.bounds;
  const Bounds usual = default_index_bounds(ndim);
  return narrowed(ndim, options.limits ? intersection(ndim, usual, *options.limits) : usual, sets);
}

std::vector<SetSpec> sets_to_make(const Program& program, const NetworkMapOptions& options) {
  return rounded_where_equal(program.ndim, options.has_bounds ? options.bounds : options.limits,
                             sets_of(program));
}

NetworkMaps::NetworkMaps(const Program& program, const NetworkMapOptions& options, Engine& engine,
                         const MapViews& views)
    : program_(program),
      options_(options),
      engine_(engine),
      reached_(program.ndim, sets_to_make(program, options), most_level_rows(program), options.batch_size),
      levels_(program.levels.size()),
      kept_coordinates_(program.levels.size()) {
  report_words_ = bounds_at() + kBoundsWords;
  for (const MapSpec& spec : program.maps) {
    MapView map;
    map.geometry = geometry_of(program, spec);
    map.offsets = spec.offsets;
    report_offset_.push_back(report_words_);
    report_words_ += map.geometry.volume;
    maps_.push_back(map);
    const i32 number = static_cast<i32>(looks_up_.size());
    // A map with a list of offsets keeps a table of rows: make_views() looks up only offsets of boxes.
    looks_up_.push_back(indexes() && engine.maps().looks_up_rows() && spec.offsets.empty() &&
                        views.may_look_up(number, fills_voxels(program, reached_.sets(), spec)));
    keeps_rows_.push_back(views.keeps_rows(number));
  }
  layout_needs(program, guard_, period_);
  if (options.has_capacities() && !options.has_bounds) key_bits_.note(options.key_bits);
}

llvm::Error NetworkMaps::allocate_host() {
  MINUET_ASSIGN(void* report, engine_.allocate_pinned(report_words_ * static_cast<i64>(sizeof(i32))));
  host_report_ = static_cast<i32*>(report);
  return llvm::Error::success();
}

MapLimits NetworkMaps::limits(i32 key_bits) const {
  // Without state, the pairs of only those maps are counted whose positions are placed.
  const std::size_t counted = options_.is_stateless ? counted_maps_ : maps_.size();
  MapLimits limits{key_bits, most_capacity(), 0, static_cast<i32>(counted), most_offsets(program_)};
  // An index makes its sets without sorting keys.
  if (indexes()) return limits;
  limits.sets = static_cast<i32>(sets());
  limits.sort_keys = reached_.most_keys([&](std::size_t level) { return capacity_of(level); });
  return limits;
}

i64 NetworkMaps::most_capacity() const {
  i64 most = 0;
  for (std::size_t i = 0; i < levels_.size(); ++i) most = std::max(most, capacity_of(i));
  return most;
}

bool NetworkMaps::keeps_keys(std::size_t level) const {
  if (options_.is_stateless) return false;
  const i32 number = static_cast<i32>(level);
  const auto is_given = [&](i32 output) { return program_.tensors[output].level == number; };
  return llvm::any_of(program_.outputs, is_given);
}

bool NetworkMaps::indexes() const {
  return options_.method == MapMethod::Indexed && sets() > 0 && sets() <= kMostIndexedLevels;
}

i64 NetworkMaps::most_coordinates() const { return most_level_rows(program_); }

llvm::Error NetworkMaps::check_count(i64 count) const {
  return check_cloud_rows(count, most_offsets(program_));
}

void NetworkMaps::place(Placement& parts) {
  report_ = parts.take<i32>(cleared_words());
  const auto word = [&](i64 at) { return report_ ? report_ + at : nullptr; };
  state_ = {reinterpret_cast<u32*>(report_), word(1), word(bounds_at()), parts.take<CloudLayout>(1)};
  if (!holds_points()) source_row_ = parts.take<i32>(capacity_of(0));
  if (!holds_points()) row_of_ = parts.take<i32>(capacity_of(0));
  if (!options_.is_stateless) {
    identity_ = parts.take<i32>(most_capacity());
    if (!holds_points()) coordinates_ = parts.take<i32>(most_unpacked_rows() * (1 + program_.ndim));
    if (indexes()) place_index_table(parts, capacities(), index_, declared_slots());
  }
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const i64 capacity = capacity_of(i);
    // The key type is final if the options give capacities. Otherwise enqueue() sets it again.
    levels_[i] = {nullptr, word(kLevelsAt + static_cast<i64>(i)), capacity, key_type_of(key_bits_.bits())};
    if (i < sets() && keeps_keys(i)) place_rows_of_level(parts, i);
    // The object that keeps the sets without state (PlacedPyramid) keeps their coordinates too.
    if (program_.levels[i].keeps_coordinates && !options_.is_stateless) {
      kept_coordinates_[i] = parts.take<i32>(capacity * (1 + program_.ndim));
    }
  }
  for (std::size_t i = 0; i < maps_.size(); ++i) maps_[i].counts = word(report_offset_[i]);
  place_masks(parts, /*kept=*/true);
  place_rows(parts, /*kept=*/true);
}

void NetworkMaps::place_workspace(Placement& parts) {
  if (options_.is_stateless) place_index_table(parts, capacities(), index_, declared_slots());
  for (std::size_t i = 0; i < sets(); ++i) {
    if (!keeps_keys(i)) place_rows_of_level(parts, i);
    if (indexes()) place_index_blocks(parts, capacity_of(i), static_cast<i32>(i), index_);
  }
  place_masks(parts, /*kept=*/false);
  place_rows(parts, /*kept=*/false);
  if (holds_points()) return;
  map_workspace_ = parts.take<char>(engine_.maps().workspace_bytes(limits(kMostKeyBits)));
  assign_rows();
}

void NetworkMaps::place_positions(Placement& parts, llvm::ArrayRef<i32> maps) {
  counted_maps_ = maps.size();
  for (const i32 map : maps) {
    const i64 queries = capacity_of(program_.maps[map].coarse);
    maps_[map].positions = parts.take<i32>(maps_[map].geometry.volume * queries + 1);
  }
}

/// Places the memory from which the coordinates of a level are read. With an index, this is
/// IndexMemory::rows. Otherwise it is the level's keys.
void NetworkMaps::place_rows_of_level(Placement& parts, std::size_t level) {
  if (indexes()) {
    place_index_rows(parts, capacity_of(level), static_cast<i32>(level), index_);
    levels_[level].side = {index_.index, static_cast<i32>(level)};
  } else {
    levels_[level].keys = parts.take<u64>(capacity_of(level));
  }
}

std::vector<i64> NetworkMaps::capacities() const {
  std::vector<i64> capacities;
  for (std::size_t i = 0; i < sets(); ++i) capacities.push_back(capacity_of(i));
  return capacities;
}

/// Returns the largest capacity of a level whose coordinates output_coordinates() changes after they are
/// unpacked: level 0 gets the caller's order, and a level may lack axes.
i64 NetworkMaps::most_unpacked_rows() const {
  i64 most = capacity_of(0);
  for (const i32 output : program_.outputs) {
    const i32 level = program_.tensors[output].level;
    if (program_.levels[level].dropped_axes != 0) {
      most = std::max(most, capacity_of(static_cast<std::size_t>(level)));
    }
  }
  return most;
}

void NetworkMaps::place_masks(Placement& parts, bool kept) {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    if (keeps_rows_[i] != kept || spec.is_identity()) continue;
    maps_[i].masks = parts.take<u32>(mask_words(maps_[i].geometry.volume) * capacity_of(spec.coarse));
    if (!looks_up_[i] || !fills_voxels(program_, reached_.sets(), spec)) continue;
    maps_[i].index.children = parts.take<i32>(capacity_of(spec.coarse));
    maps_[i].index.parents = parts.take<i32>(capacity_of(spec.fine));
  }
}

void NetworkMaps::place_rows(Placement& parts, bool kept) {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    if (looks_up_[i] || keeps_rows_[i] != kept || spec.is_identity()) continue;
    maps_[i].rows = parts.take<i32>(maps_[i].geometry.volume * capacity_of(spec.coarse));
  }
}

/// Sets MapView::index of each map to the index, if there is one, and to the map's two levels in it.
void NetworkMaps::assign_rows() {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    IndexedSides& sides = maps_[i].index;
    sides.index = indexes() ? index_.index : nullptr;
    sides.source_level = spec.fine;
    sides.query_level = spec.coarse;
  }
}

llvm::Error NetworkMaps::fill(Device& device) {
  std::vector<i32> identity(static_cast<std::size_t>(most_capacity()));
  std::iota(identity.begin(), identity.end(), 0);
  MINUET_TRY(device.upload(identity_, identity.data(), static_cast<i64>(identity.size() * sizeof(i32))));
  if (!indexes()) return llvm::Error::success();
  MINUET_TRY(device.clear(index_.taken, index_.slots / 32 * static_cast<i64>(sizeof(u32))));
  return device.clear(index_.table, index_.slots * static_cast<i64>(sizeof(Superblock)));
}

llvm::Error NetworkMaps::find_layout(const i32* coordinates, const i32* given_count, i64 most) {
  LayoutRequest request;
  request.coordinates = coordinates;
  request.given_count = given_count;
  request.most = most;
  request.declared = options_.has_bounds ? &options_.bounds : nullptr;
  request.limits = options_.limits ? &*options_.limits : nullptr;
  std::copy_n(guard_, kMaxDim, request.guard);
  std::copy_n(period_, kMaxDim, request.period);
  request.key_bits = key_bits_.bits() ? key_bits_.bits() : kMostKeyBits;
  request.cloud = state_;
  return engine_.maps().find_layout(request);
}

llvm::Expected<KeyLayout> NetworkMaps::needed_layout(i64 count) const {
  const Bounds bounds = options_.has_bounds ? options_.bounds
                        : count > 0         ? read_bounds(host_report_ + bounds_at())
                                            : Bounds{};
  MINUET_TRY(check_limits(bounds));
  return make_cloud_layout(program_.ndim, bounds, guard_, period_);
}

llvm::Error NetworkMaps::build(const i32* coordinates, i64 count) {
  if (holds_points()) {
    // Nothing is read back, because the host knows the number of points.
    host_report_[0] = 0, host_report_[1] = host_report_[kLevelsAt] = static_cast<i32>(count);
    MINUET_TRY(enqueue(nullptr, nullptr, count));
    return take_report(count);
  }
  MINUET_TRY(indexes() ? build_by_index(coordinates, count) : build_by_sorting(coordinates, count));
  // The table of an index may be full before a level has too many rows.
  const u32 status = static_cast<u32>(host_report_[0]);
  const bool is_full = (status & (kStatusPastCapacity | kStatusIndexFull)) != 0;
  needs_room_ = is_full && reached_.raise(host_report_ + kLevelsAt, count);
  return needs_room_ ? llvm::Error::success() : take_report(count);
}

llvm::Error NetworkMaps::build_by_sorting(const i32* coordinates, i64 count) {
  if (key_bits_.bits() == 0) {
    if (!options_.has_bounds) {
      // The whole report must be initialized, because all of it is read back.
      MINUET_TRY(engine_.fill_words(report_, 0, report_words_));
      MINUET_TRY(find_layout(coordinates, nullptr, count));
      MINUET_TRY(read_words());
    }
    MINUET_ASSIGN(const KeyLayout layout, needed_layout(count));
    key_bits_.note(rounded_key_bits(layout));
  }
  for (bool fit = false; !fit;) {
    MINUET_TRY(enqueue(coordinates, nullptr, count));
    MINUET_TRY(read_words());
    MINUET_ASSIGN(const KeyLayout layout, needed_layout(count));
    fit = rounded_key_bits(layout) <= key_bits_.bits();
    // The next cloud is assumed to need as many bits as this one.
    key_bits_.note(rounded_key_bits(layout));
  }
  return llvm::Error::success();
}

/// If there is an index, derives its range from the declared or the default bounds. Otherwise derives the
/// number of key bits from the declared bounds, unless the options give this number.
llvm::Error NetworkMaps::find_limits() {
  if (indexes()) return describe(bounds_to_index(program_.ndim, options_, reached_.sets()));
  if (key_bits_.bits() != 0) return llvm::Error::success();
  MINUET_ASSIGN(const KeyLayout layout, needed_layout(0));
  key_bits_.note(rounded_key_bits(layout));
  return llvm::Error::success();
}

llvm::Error NetworkMaps::enqueue(const i32* coordinates, const i32* given_count, i64 most) {
  // Unless the options give capacities, the amount of work depends only on the size of this cloud, although
  // the memory has room for capacity_ coordinates.
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const bool is_fixed = options_.has_capacities() || i >= sets();
    levels_[i].capacity = is_fixed ? capacity_of(i) : reached_.estimated_rows(i, std::max<i64>(most, 1));
  }
  if (holds_points()) return enqueue_points(given_count, most);
  assign_rows();
  MINUET_TRY(indexes() ? enqueue_indexed(coordinates, given_count, most)
                       : enqueue_sorted(coordinates, given_count, most));
  return list_coordinates();
}

/// Writes the coordinates of those levels whose coordinates ops read.
llvm::Error NetworkMaps::list_coordinates() {
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (kept_coordinates_[i]) MINUET_TRY(unpack(static_cast<i32>(i), kept_coordinates_[i]));
  }
  return llvm::Error::success();
}

/// Returns OutOfRange if the coordinates of a cloud exceed the limits (NetworkMapOptions::limits).
llvm::Error NetworkMaps::check_limits(const Bounds& bounds) const {
  if (!options_.limits || !exceeds(program_.ndim, bounds, *options_.limits)) return llvm::Error::success();
  if (bounds.least[0] < 0) return check_coordinate_status(kStatusNegativeBatch);
  return outside_limits(program_.ndim, *options_.limits);
}

llvm::Error NetworkMaps::enqueue_points(const i32* given_count, i64 most) {
  MINUET_TRY(engine_.fill_words(report_, 0, cleared_words()));
  for (i32* const count : {state_.points, levels_.front().count}) {
    MINUET_TRY(given_count ? engine_.copy(count, given_count, static_cast<i64>(sizeof(i32)))
                           : engine_.fill_words(count, static_cast<u32>(most), 1));
  }
  return llvm::Error::success();
}

llvm::Error NetworkMaps::enqueue_sorted(const i32* coordinates, const i32* given_count, i64 most) {
  MapLimits limits = this->limits(key_bits_.bits());
  limits.capacity = std::max<i64>(most, 1);
  for (Coords& level : levels_) {
    level.key = limits.key();
    limits.capacity = std::max(limits.capacity, level.capacity);
  }
  limits.sort_keys = reached_.most_keys([&](std::size_t level) { return levels_[level].capacity; });
  MINUET_TRY(engine_.fill_words(report_, 0, cleared_words()));
  MINUET_TRY(find_layout(coordinates, given_count, most));
  MINUET_TRY(engine_.maps().begin(limits, map_workspace_));
  BuildCoordsRequest build;
  build.coordinates = coordinates;
  build.count = state_.points;
  build.most = most;
  build.layout = state_.layout;
  build.coords = levels_[0];
  build.source_row = source_row_;
  build.row_of = row_of_;
  build.status = state_.status;
  build.refuses_duplicates = options_.has_capacities() && !options_.keep_first_duplicate;
  MINUET_TRY(build_sorted(build));
  MINUET_TRY(count_items());
  MINUET_TRY(void_failed());
  return search_sorted();
}

/// Writes the number of rows of the level that holds batch items, if there is one. The map step counts the
/// rows of all other levels.
llvm::Error NetworkMaps::count_items() {
  if (sets() == levels_.size()) return llvm::Error::success();
  return engine_.fill_words(levels_.back().count, static_cast<u32>(options_.batch_size), 1);
}

/// If the options give capacities, sets the counts of a cloud that has failed to 0, because only the device
/// knows of the failure.
llvm::Error NetworkMaps::void_failed() {
  if (!options_.has_capacities()) return llvm::Error::success();
  return engine_.maps().void_failed(state_.status, state_.points, 1 + static_cast<i64>(levels_.size()));
}

llvm::Error NetworkMaps::build_sorted(const BuildCoordsRequest& build) {
  MINUET_TRY(engine_.maps().build_coords(build));
  for (std::size_t i = 1; i < sets(); ++i) {
    const LevelSpec& spec = program_.levels[i];
    MINUET_TRY(engine_.maps().downsample({levels_[spec.parent], state_.layout, spec.tensor_stride, levels_[i],
                                          state_.status, reached_.sources_unless_rounded(i),
                                          spec.has_two_parents() ? levels_[spec.other_parent] : Coords()}));
  }
  return llvm::Error::success();
}

llvm::Error NetworkMaps::search_sorted() {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    if (spec.is_identity()) continue;
    MapView& map = maps_[i];
    MINUET_TRY(engine_.maps().search({levels_[spec.fine], levels_[spec.coarse], state_.layout, &map}));
    MINUET_TRY(engine_.maps().make_masks(levels_[spec.coarse], map.geometry.volume, map, map.counts));
  }
  return llvm::Error::success();
}

/// Copies the whole report to the host and waits for it.
llvm::Error NetworkMaps::read_words() {
  MINUET_TRY(engine_.read_back(host_report_, report_, report_words_ * static_cast<i64>(sizeof(i32))));
  return engine_.wait();
}

llvm::Error NetworkMaps::read_state(u32& status, llvm::MutableArrayRef<i32> counts) {
  MINUET_TRY(read_words());
  status = static_cast<u32>(host_report_[0]);
  std::copy_n(host_report_ + 1, counts.size(), counts.begin());
  return llvm::Error::success();
}

llvm::Error NetworkMaps::take_report(i64 count) {
  const u32 status = static_cast<u32>(host_report_[0]);
  const bool is_outside = (status & kStatusOutOfBounds) != 0 && (status & kStatusNegativeBatch) == 0;
  if (is_outside && options_.limits) return outside_limits(program_.ndim, *options_.limits);
  // Level 0 fits, so a level that is reached from others, or a union, has too many rows, or its blocks fill
  // the index.
  const bool is_full = (status & (kStatusPastCapacity | kStatusIndexFull)) != 0;
  if (is_full && !reached_.sources().empty() && rows(0) > 0) return too_many_reached();
  MINUET_TRY(check_coordinate_status(status));
  MINUET_TRY(check_duplicates(rows(0), count, options_.keep_first_duplicate));
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    maps_[i].sources = rows(spec.fine);
    maps_[i].queries = rows(spec.coarse);
    if (spec.is_identity()) host_report_[report_offset_[i]] = static_cast<i32>(maps_[i].queries);
  }
  return llvm::Error::success();
}

llvm::Error NetworkMaps::unpack(i32 level, i32* coordinates) const {
  return engine_.maps().unpack(levels_[level], indexes() ? nullptr : state_.layout, coordinates);
}

}  // namespace minuet
