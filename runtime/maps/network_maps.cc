#include "runtime/maps/network_maps.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "runtime/engine/set_index.h"

namespace minuet {
namespace {

bool fills_cells(const Program& program, const MapSpec& spec) {
  return program.levels[spec.coarse].parent == spec.fine &&
         minuet::fills_cells(program.ndim, spec.kernel_size, spec.dilation,
                             program.levels[spec.fine].tensor_stride,
                             program.levels[spec.coarse].tensor_stride);
}

}  // namespace

NetworkMaps::NetworkMaps(const Program& program, const NetworkMapOptions& options, Engine& engine,
                         const MapViews& views)
    : program_(program),
      options_(options),
      engine_(engine),
      levels_(program.levels.size()),
      map_rows_(program.maps.size()) {
  report_words_ = bounds_at() + kBoundsWords;
  for (const MapSpec& spec : program.maps) {
    MapView map;
    map.geometry =
        make_geometry(program.ndim, spec.kernel_size, spec.dilation, program.levels[spec.fine].tensor_stride);
    report_offset_.push_back(report_words_);
    report_words_ += map.geometry.volume;
    maps_.push_back(map);
    const i32 number = static_cast<i32>(looks_up_.size());
    looks_up_.push_back(views.may_look_up(number, fills_cells(program, spec)));
    keeps_rows_.push_back(views.keeps_rows(number));
  }
  layout_needs(program, guard_, period_);
  indexes_ = may_index();
  if (options.has_capacities() && !options.has_bounds) key_bits_.note(options.key_bits);
}

llvm::Error NetworkMaps::allocate_host() {
  MINUET_ASSIGN(void* report, engine_.allocate_pinned(report_words_ * static_cast<i64>(sizeof(i32))));
  host_report_ = static_cast<i32*>(report);
  return llvm::Error::success();
}

MapLimits NetworkMaps::limits(i32 key_bits) const {
  MapLimits limits{key_bits, capacity_, static_cast<i32>(levels_.size()), static_cast<i32>(maps_.size()), 1};
  for (const MapView& map : maps_) limits.max_volume = std::max(limits.max_volume, map.geometry.volume);
  return limits;
}

bool NetworkMaps::keeps_keys(std::size_t level) const {
  const i32 number = static_cast<i32>(level);
  return program_.tensors[program_.output].level == number || program_.levels[level].is_made_in_run() ||
         llvm::any_of(program_.levels, [&](const LevelSpec& other) {
           return other.is_made_in_run() && other.parent == number;
         });
}

/// Returns true if an index of occupied cells may build the levels (coordinate sets). An index holds all
/// levels, so no op may make one of them in a run. Capacity mode requires declared bounds, because only they
/// show in advance whether the index has room for the cells of every cloud.
bool NetworkMaps::may_index() const {
  return llvm::none_of(program_.levels, std::mem_fn(&LevelSpec::is_made_in_run)) &&
         (options_.has_bounds || !options_.has_capacities()) && options_.method == MapMethod::Indexed &&
         engine_.maps().has_cell_index() && levels_.size() <= kMostIndexedLevels;
}

bool NetworkMaps::is_dense(const KeyLayout& layout, i64 most) const {
  i64 words = 0;
  for (const LevelSpec& level : program_.levels) {
    words += level_index_words(layout, level.tensor_stride);
  }
  return words <= most_index_words(most);
}

i64 NetworkMaps::most_coordinates() const {
  return std::min(kMaxCoordinates, most_map_rows(limits(kMostKeyBits).max_volume));
}

llvm::Error NetworkMaps::check_count(i64 count) const {
  return check_cloud_rows(count, limits(kMostKeyBits).max_volume);
}

void NetworkMaps::place(Placement& parts) {
  report_ = parts.take<i32>(cleared_words());
  const auto word = [&](i64 at) { return report_ ? report_ + at : nullptr; };
  state_ = {reinterpret_cast<u32*>(report_), word(1), word(bounds_at()), parts.take<CloudLayout>(1)};
  identity_ = parts.take<i32>(capacity_);
  source_row_ = parts.take<i32>(capacity_of(0));
  row_of_ = parts.take<i32>(capacity_of(0));
  coordinates_ = parts.take<i32>(capacity_of(0) * (1 + program_.ndim));
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const i64 capacity = capacity_of(i);
    levels_[i] = {keeps_keys(i) ? parts.take<u64>(capacity) : nullptr, word(kLevelsAt + static_cast<i64>(i)),
                  // The key type is final if the options give capacities. Otherwise enqueue() sets it again.
                  capacity, key_type_of(key_bits_.bits())};
  }
  for (std::size_t i = 0; i < maps_.size(); ++i) maps_[i].counts = word(report_offset_[i]);
  place_masks(parts, /*kept=*/true);
  place_rows(parts, /*looked_up=*/false, /*kept=*/true);
}

void NetworkMaps::place_workspace(Placement& parts) {
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (!keeps_keys(i)) levels_[i].keys = parts.take<u64>(capacity_of(i));
  }
  place_masks(parts, /*kept=*/false);
  place_rows(parts, /*looked_up=*/false, /*kept=*/false);
  MapLimits most = limits(kMostKeyBits);
  if (may_index()) {
    most.indexed_sets = static_cast<i32>(levels_.size());
    most.index_words = most_index_words(capacity_);
  }
  map_workspace_ = parts.take<char>(engine_.maps().workspace_bytes(most));
  parts.share([&](Placement& sorted) { place_rows(sorted, /*looked_up=*/true, /*kept=*/false); },
              [&](Placement& indexed) {
                if (!may_index()) return;
                cells_ = place_cell_index(indexed, most.index_words, most.indexed_sets * capacity_);
              });
  assign_rows();
}

void NetworkMaps::place_masks(Placement& parts, bool kept) {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    if (keeps_rows_[i] == kept && !spec.is_identity())
      maps_[i].masks = parts.take<u32>(mask_words(maps_[i].geometry.volume) * capacity_of(spec.coarse));
  }
}

void NetworkMaps::place_rows(Placement& parts, bool looked_up, bool kept) {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    if (looks_up_[i] != looked_up || keeps_rows_[i] != kept || spec.is_identity()) continue;
    map_rows_[i] = parts.take<i32>(maps_[i].geometry.volume * capacity_of(spec.coarse));
  }
}

/// Sets the row table of each map to null if an index replaces it, otherwise to the memory placed for it.
void NetworkMaps::assign_rows() {
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    maps_[i].rows = indexes_ && looks_up_[i] ? nullptr : map_rows_[i];
    maps_[i].index = {};
    if (!indexes_) continue;
    maps_[i].index = {{state_.layout, key(), cells_},
                      spec.fine,
                      spec.coarse,
                      levels_[spec.fine].keys,
                      levels_[spec.coarse].keys,
                      fills_cells(program_, spec)};
  }
}

llvm::Error NetworkMaps::fill(Device& device) {
  std::vector<i32> identity(static_cast<std::size_t>(capacity_));
  std::iota(identity.begin(), identity.end(), 0);
  return device.upload(identity_, identity.data(), capacity_ * static_cast<i64>(sizeof(i32)));
}

llvm::Error NetworkMaps::find_layout(const i32* coordinates, const i32* given_count, i64 most) {
  LayoutRequest request;
  request.coordinates = coordinates;
  request.given_count = given_count;
  request.most = most;
  request.declared = options_.has_bounds ? &options_.bounds : nullptr;
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
  return make_cloud_layout(program_.ndim, bounds, guard_, period_);
}

llvm::Error NetworkMaps::build(const i32* coordinates, i64 count) {
  if (key_bits_.bits() == 0) {
    if (!options_.has_bounds) {
      // The whole report must be initialized, because all of it is read back.
      MINUET_TRY(engine_.fill_words(report_, 0, report_words_));
      MINUET_TRY(find_layout(coordinates, nullptr, count));
      MINUET_TRY(read_words());
    }
    MINUET_ASSIGN(const KeyLayout layout, needed_layout(count));
    update_estimates(layout, count);
  }
  for (bool holds = false; !holds;) {
    MINUET_TRY(enqueue(coordinates, nullptr, count));
    MINUET_TRY(read_words());
    MINUET_ASSIGN(const KeyLayout layout, needed_layout(count));
    const bool keys_fit = rounded_key_bits(layout) <= key_bits_.bits();
    update_estimates(layout, count);
    holds = keys_fit && (indexes_ || !indexes_built_);
  }
  return take_report(count);
}

/// Updates the number of key bits and the decision for or against an index for the next cloud, which is
/// assumed to be similar to this one.
void NetworkMaps::update_estimates(const KeyLayout& layout, i64 coordinates) {
  key_bits_.note(rounded_key_bits(layout));
  const bool dense = may_index() && is_dense(layout, coordinates);
  dense_clouds_ = dense ? dense_clouds_ + 1 : 0;
  indexes_ = dense && (indexes_ || dense_clouds_ >= KeyBits::kPatience);
}

/// Derives the number of key bits from the declared bounds unless the options give it, and decides whether
/// clouds get an index.
llvm::Error NetworkMaps::find_limits() {
  if (key_bits_.bits() != 0) return llvm::Error::success();
  MINUET_ASSIGN(const KeyLayout layout, needed_layout(0));
  update_estimates(layout, capacity_);
  return llvm::Error::success();
}

llvm::Error NetworkMaps::enqueue(const i32* coordinates, const i32* given_count, i64 most) {
  // Unless the options give capacities, the amount of work depends only on the size of this cloud, although
  // the memory has room for capacity_ coordinates.
  MapLimits limits = this->limits(key_bits_.bits());
  limits.capacity = std::max<i64>(most, 1);
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    levels_[i].capacity = options_.has_capacities() ? capacity_of(i) : limits.capacity;
    levels_[i].key = limits.key();
    limits.capacity = std::max(limits.capacity, levels_[i].capacity);
  }
  if (indexes_) {
    // The member limits.maps keeps its value, because gather-GEMM-scatter needs the workspace in which pairs
    // are counted.
    limits.sets = 0;
    limits.indexed_sets = static_cast<i32>(levels_.size());
    limits.index_words = most_index_words(limits.capacity);
  }
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
  indexes_built_ = indexes_;
  assign_rows();
  MINUET_TRY(indexes_ ? build_indexed(build) : build_sorted(build));
  if (options_.has_capacities()) {
    const i64 counts = 1 + static_cast<i64>(levels_.size());
    MINUET_TRY(engine_.maps().void_failed(state_.status, state_.points, counts));
  }
  return indexes_ ? search_indexed() : search_sorted();
}

llvm::Error NetworkMaps::build_sorted(const BuildCoordsRequest& build) {
  MINUET_TRY(engine_.maps().build_coords(build));
  for (std::size_t i = 1; i < levels_.size(); ++i) {
    const LevelSpec& spec = program_.levels[i];
    if (spec.is_made_in_run()) continue;
    MINUET_TRY(engine_.maps().downsample(
        {levels_[spec.parent], state_.layout, spec.tensor_stride, levels_[i], state_.status}));
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

llvm::Error NetworkMaps::build_indexed(const BuildCoordsRequest& build) {
  std::vector<IndexSetsRequest::Level> levels;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    levels.push_back({program_.levels[i].tensor_stride, levels_[i]});
  }
  return engine_.maps().index_sets({build, state_.points, cells_, levels});
}

llvm::Error NetworkMaps::search_indexed() {
  std::vector<IndexedSearch> searches;
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    if (!spec.is_identity()) searches.push_back({levels_[spec.coarse], &maps_[i]});
  }
  return engine_.maps().search_index(searches);
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

llvm::Error NetworkMaps::unpack(i32 level, i32* coordinates) const {
  return engine_.maps().unpack(levels_[level], state_.layout, coordinates);
}

}  // namespace minuet
