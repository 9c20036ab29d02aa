// The coordinate sets and kernel maps of a network, for one cloud at a time, in the arena of an execution.
#pragma once

#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/arena.h"
#include "runtime/engine/cloud_layout.h"
#include "runtime/maps/map_views.h"
#include "runtime/program/program.h"

namespace minuet {

/// Method for building coordinate sets and kernel maps.
enum class MapMethod : i32 {
  Sorted,   // sort keys, then search sorted keys (paper, section 5.1)
  Indexed,  // index the occupied cells; falls back to Sorted if there are too many cells, and on the CPU
};

struct NetworkMapOptions {
  MapMethod method = MapMethod::Sorted;
  bool keep_first_duplicate = false;
  bool has_bounds = false;
  Bounds bounds;
  /// Used in capacity mode only, else empty: the most rows of each level; level 0 also limits the caller's
  /// coordinates.
  std::vector<i64> level_capacity;
  i32 key_bits = 0;  // of keys in capacity mode if no bounds are declared

  bool has_capacities() const { return !level_capacity.empty(); }
};

class NetworkMaps {
 public:
  /// `views` decides which forms of each map are stored.
  NetworkMaps(const Program& program, const NetworkMapOptions& options, Engine& engine,
              const MapViews& views);
  llvm::Error allocate_host();

  /// Returns OutOfRange if `count` is more than one cloud may have.
  llvm::Error check_count(i64 count) const;
  i64 most_coordinates() const;
  /// Returns the number of coordinates that place() reserves memory for.
  i64 capacity() const { return capacity_; }
  void set_capacity(i64 coordinates) { capacity_ = coordinates; }
  void place(Placement& parts);
  /// Places the memory that is in use only until the views of the maps are made. Call it after place().
  void place_workspace(Placement& parts);
  /// Uploads constant data to the memory that place() placed.
  llvm::Error fill(Device& device);

  /// Builds the sets and maps of a cloud. Waits once; twice if the keys need more bits than those of earlier
  /// clouds, or for the first cloud if no bounds are declared.
  llvm::Error build(const i32* coordinates, i64 count);
  /// Capacity mode: determines key bits and method. Required before the first enqueue().
  llvm::Error find_limits();
  /// Enqueues the build of a cloud; this is all that capacity mode does. `given_count` is on the device; if
  /// it is null, there are `most` coordinates. In capacity mode, a cloud that does not fit gets no rows and a
  /// bit in status().
  llvm::Error enqueue(const i32* coordinates, const i32* given_count, i64 most);

  // Results of the last build.
  MapMethod method() const { return indexes_built_ ? MapMethod::Indexed : MapMethod::Sorted; }
  KeyType key() const { return levels_[0].key; }
  /// Returns the rows of a level; an upper bound if an op makes the level in each run.
  i64 rows(i32 level) const {
    const LevelSpec& spec = program_.levels[level];
    return spec.is_made_in_run() ? rows(spec.parent) : host_report_[kLevelsAt + level];
  }
  i32* count(i32 level) const { return levels_[level].count; }  // device
  const Coords& coords(i32 level) const { return levels_[level]; }
  const MapView& map(i32 map) const { return maps_[map]; }
  const i32* pairs(i32 map) const { return host_report_ + report_offset_[map]; }
  /// Reads status and counts() back, and waits. `counts` has 1 + levels words.
  llvm::Error read_state(u32& status, llvm::MutableArrayRef<i32> counts);
  /// On the device: the number of the caller's rows followed by the rows of each level; and the status bits.
  const i32* counts() const { return state_.points; }
  const u32* status() const { return state_.status; }
  /// Map rows between the caller's order and level 0.
  const i32* source_row() const { return source_row_; }
  const i32* row_of() const { return row_of_; }
  /// [capacity] 0, 1, 2, ...: serves as both row tables of a map with one offset from a set to itself.
  i32* identity() const { return identity_; }
  /// Unpacks the coordinates of a level to int32 [rows, 1 + ndim], ascending.
  llvm::Error unpack(i32 level, i32* coordinates) const;
  /// [layers] words that are 0 when a cloud begins. They follow the report, so that one fill, also in a
  /// replayed graph, clears both.
  u32* layer_words() const { return report_ ? reinterpret_cast<u32*>(report_ + report_words_) : nullptr; }
  /// Memory for the coordinates of level 0.
  i32* coordinates() const { return coordinates_; }

 private:
  MapLimits limits(i32 key_bits) const;
  bool may_index() const;
  /// Returns true if the level's keys are read after the views are made: by the caller, or by an op that
  /// makes a level in a run.
  bool keeps_keys(std::size_t level) const;
  void place_masks(Placement& parts, bool kept);
  /// Places the rows of the maps whose rows an index can look up, or of the other maps; of these, the rows
  /// that runs read (`kept`), or the rows that are only needed to make views.
  void place_rows(Placement& parts, bool looked_up, bool kept);
  void assign_rows();
  /// Returns true if an index for this layout is small enough for `most` coordinates.
  bool is_dense(const KeyLayout& layout, i64 most) const;
  void update_estimates(const KeyLayout& layout, i64 coordinates);
  i64 capacity_of(std::size_t level) const {
    return options_.has_capacities() ? options_.level_capacity[level] : capacity_;
  }
  llvm::Error find_layout(const i32* coordinates, const i32* given_count, i64 most);
  llvm::Error read_words();
  /// Returns the layout of the bounds that are declared or have been read back.
  llvm::Expected<KeyLayout> needed_layout(i64 count) const;
  llvm::Error build_sorted(const BuildCoordsRequest& build);
  llvm::Error search_sorted();
  llvm::Error build_indexed(const BuildCoordsRequest& build);
  llvm::Error search_indexed();
  llvm::Error take_report(i64 count);

  const Program& program_;
  const NetworkMapOptions options_;
  Engine& engine_;
  i64 capacity_ = 0;
  i64 guard_[kMaxDim] = {}, period_[kMaxDim] = {1, 1, 1, 1};  // required of the layout
  KeyBits key_bits_;
  bool indexes_ = false;  // true if the next cloud gets an index; requires several dense clouds in a row
  i32 dense_clouds_ = 0;
  bool indexes_built_ = false;  // true if the last cloud has an index
  std::vector<Coords> levels_;
  std::vector<MapView> maps_;
  std::vector<i32*> map_rows_;    // memory for the rows of each map, also used if a cloud has no index
  std::vector<bool> looks_up_;    // by map: true if an index can replace the table of rows
  std::vector<bool> keeps_rows_;  // by map: true if runs read its table of rows or its masks

  CloudState state_;
  i32* report_ = nullptr;
  i32 *identity_ = nullptr, *source_row_ = nullptr, *row_of_ = nullptr, *coordinates_ = nullptr;
  void* map_workspace_ = nullptr;
  CellIndex cells_;

  // The report, copied to the host at once: status, points, level counts, bounds, map counts.
  static constexpr i64 kLevelsAt = 2;
  i64 bounds_at() const { return kLevelsAt + static_cast<i64>(levels_.size()); }
  i64 report_words_;
  i64 cleared_words() const { return report_words_ + static_cast<i64>(program_.layers.size()); }
  std::vector<i64> report_offset_;  // where the counts of each map begin, in words
  i32* host_report_ = nullptr;
};

}  // namespace minuet
