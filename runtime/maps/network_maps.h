// The coordinate sets and kernel maps of a network for one cloud at a time, in an execution's arena.
#pragma once

#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/arena.h"
#include "runtime/engine/cloud_layout.h"
#include "runtime/maps/map_views.h"
#include "runtime/program/program.h"

namespace minuet {

/// How coordinate sets and kernel maps are made.
enum class MapMethod : i32 {
  Sorted,   // a sort of keys, and a search of sorted keys (paper 5.1)
  Indexed,  // by the cells that are occupied; sorted where the cloud's extent has too many, or on the CPU
};

struct NetworkMapOptions {
  MapMethod method = MapMethod::Sorted;
  bool keep_first_duplicate = false;
  bool has_bounds = false;
  Bounds bounds;
  /// Capacity mode: the most rows of each level, and of the caller's coordinates as of level 0; else empty.
  std::vector<i64> level_capacity;
  i32 key_bits = 0;  // of capacity mode's keys, where no bounds are declared

  bool has_capacities() const { return !level_capacity.empty(); }
};

class NetworkMaps {
 public:
  /// `views` decide what of each map is stored.
  NetworkMaps(const Program& program, const NetworkMapOptions& options, Engine& engine,
              const MapViews& views);
  llvm::Error allocate_host();

  /// OutOfRange for more coordinates than one cloud may have.
  llvm::Error check_count(i64 count) const;
  i64 most_coordinates() const;
  /// Coordinates that place() makes room for.
  i64 capacity() const { return capacity_; }
  void set_capacity(i64 coordinates) { capacity_ = coordinates; }
  void place(Placement& parts);
  /// What is in use until the views of the maps are made. After place().
  void place_workspace(Placement& parts);
  /// What place() placed is at hand.
  llvm::Error fill(Device& device);

  /// Sets and maps of a cloud. Waits once; twice where its keys take more bits than earlier clouds', or
  /// where it is the first and no bounds were declared.
  llvm::Error build(const i32* coordinates, i64 count);
  /// Capacity mode, before the first enqueue.
  llvm::Error find_limits();
  /// Capacity mode: the same, only enqueued. `given_count`: on the device; null: there are `most`. What does
  /// not fit leaves no rows, and a bit in status().
  llvm::Error enqueue(const i32* coordinates, const i32* given_count, i64 most);

  // Of the last build:
  MapMethod method() const { return indexes_built_ ? MapMethod::Indexed : MapMethod::Sorted; }
  KeyType key() const { return levels_[0].key; }
  /// The most that there can be, where an op makes the level in each run.
  i64 rows(i32 level) const {
    const LevelSpec& spec = program_.levels[level];
    return spec.made_by >= 0 ? rows(spec.parent) : host_report_[kLevelsAt + level];
  }
  i32* count(i32 level) const { return levels_[level].count; }  // device
  const Coords& coords(i32 level) const { return levels_[level]; }
  const MapView& map(i32 map) const { return maps_[map]; }
  const i32* pairs(i32 map) const { return host_report_ + report_offset_[map]; }
  /// Reads back and waits. `counts`: [1 + levels] as counts().
  llvm::Error read_state(u32& status, llvm::MutableArrayRef<i32> counts);
  /// On the device: the caller's rows, behind them each level's; what went wrong.
  const i32* counts() const { return state_.points; }
  const u32* status() const { return state_.status; }
  /// Of the caller's rows and level 0's.
  const i32* source_row() const { return source_row_; }
  const i32* row_of() const { return row_of_; }
  /// [rows of level 0] 0, 1, 2, ...: both tables of a map of one offset onto its own set.
  i32* identity() const { return identity_; }
  /// int32 [rows, 1 + ndim] of the output's level, ascending.
  llvm::Error unpack(i32 level, i32* coordinates) const;
  /// [layers] 0 where a cloud begins: a graph that is replayed has one fill for these and for the report.
  u32* layer_words() const { return report_ ? reinterpret_cast<u32*>(report_ + report_words_) : nullptr; }
  /// Room for level 0's.
  i32* coordinates() const { return coordinates_; }

 private:
  MapLimits limits(i32 key_bits) const;
  bool may_index() const;
  /// Whether the level's coordinates are read after the views are made: by the caller, or by an op that makes
  /// a level of them in a run.
  bool keeps_keys(std::size_t level) const;
  void place_masks(Placement& parts, bool kept);
  /// Rows of the maps that an index looks up, or of the others: those that runs read, or those that only
  /// views are made of.
  void place_rows(Placement& parts, bool looked_up, bool kept);
  void lay_rows();
  /// Whether a cloud of `most` coordinates and this layout gets an index.
  bool is_dense(const KeyLayout& layout, i64 most) const;
  void note(const KeyLayout& layout, i64 coordinates);
  i64 capacity_of(std::size_t level) const {
    return options_.has_capacities() ? options_.level_capacity[level] : capacity_;
  }
  llvm::Error find_layout(const i32* coordinates, const i32* given_count, i64 most);
  llvm::Error read_words();
  /// Of the bounds that are declared, or read back.
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
  i64 guard_[kMaxDim] = {}, period_[kMaxDim] = {1, 1, 1, 1};  // that the layout needs
  KeyBits key_bits_;
  bool indexes_ = false;  // whether the next cloud gets an index: none until some in a row could have had one
  i32 dense_clouds_ = 0;
  bool indexes_built_ = false;  // whether the last one has it
  std::vector<Coords> levels_;
  std::vector<MapView> maps_;
  std::vector<i32*> map_rows_;    // memory of the maps' rows, for clouds that have no index too
  std::vector<bool> looks_up_;    // of an index, the rows of each map
  std::vector<bool> keeps_rows_;  // whether runs read a map's rows, or its masks, as they come

  CloudState state_;
  i32* report_ = nullptr;
  i32 *identity_ = nullptr, *source_row_ = nullptr, *row_of_ = nullptr, *coordinates_ = nullptr;
  void* map_workspace_ = nullptr;
  CellIndex cells_;

  // The report: status, points, level counts, bounds, map counts. One copy to the host.
  static constexpr i64 kLevelsAt = 2;
  i64 bounds_at() const { return kLevelsAt + static_cast<i64>(levels_.size()); }
  i64 report_words_;
  i64 cleared_words() const { return report_words_ + static_cast<i64>(program_.layers.size()); }
  std::vector<i64> report_offset_;  // of each map's counts, in words
  i32* host_report_ = nullptr;
};

}  // namespace minuet
