// Builds the coordinate sets and kernel maps of a network, for one cloud at a time, in the arena of an
// execution.
#pragma once

#include <optional>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/arena.h"
#include "runtime/engine/cloud_layout.h"
#include "runtime/maps/map_views.h"
#include "runtime/maps/reached_levels.h"
#include "runtime/program/program.h"

namespace minuet {

/// Names a method that builds coordinate sets and kernel maps.
enum class MapMethod : i32 {
  // This method sorts the keys, then searches the sorted keys (section 5.1 of the Minuet paper).
  Sorted,
  // This method makes an index of the occupied voxels (voxel_index.h). NetworkMaps uses Sorted instead if
  // there are more than kMostIndexedLevels levels (coordinate sets), or none.
  Indexed,
};

struct NetworkMapOptions {
  MapMethod method = MapMethod::Sorted;
  bool keep_first_duplicate = false;
  bool has_bounds = false;
  Bounds bounds;
  // Holds the number of batch items, or 0 if it is not declared.
  i32 batch_size = 0;
  // Holds the range that coordinates must have. A field without limits has the whole range of an i32. It is
  // empty if no field has limits, or if the caller declares bounds (limit_coordinates()).
  std::optional<Bounds> limits;
  /// Holds the maximum number of rows of each level (coordinate set) if only the device knows the sizes of
  /// clouds (capacity mode), and is empty otherwise. Element 0 also limits the number of the caller's
  /// coordinates.
  std::vector<i64> level_capacity;
  /// Holds, for each level, the number of hash-table slots that the caller declares, or 0 for the default
  /// (level_slots()). It is empty if the caller declares none, and always if level_capacity is.
  std::vector<i64> level_slots;
  // Holds the number that each level has in the user's network, for messages, if the program is a stage of
  // it (runtime/program/stages.h). It is empty if the program is the whole network.
  std::vector<i32> level_numbers;
  // Holds the number of key bits if has_capacities() is true and no bounds are declared. Only
  // MapMethod::Sorted uses it.
  i32 key_bits = 0;
  /// Says whether nothing is kept from cloud to cloud. The hash table of the index then lies in the
  /// workspace, enqueue() empties it, and there are no identity() and coordinates(). The options must give
  /// capacities.
  bool is_stateless = false;

  bool has_capacities() const { return !level_capacity.empty(); }
  i32 number_of(std::size_t level) const {
    return level_numbers.empty() ? static_cast<i32>(level) : level_numbers[level];
  }
};

/// Returns the range of coordinates for which an index is made first.
Bounds bounds_to_index(i32 ndim, const NetworkMapOptions& options, llvm::ArrayRef<SetSpec> sets);

/// Returns the sets of a program in the form in which they are made (rounded_where_equal()).
/// limit_coordinates() must have completed the options.
std::vector<SetSpec> sets_to_make(const Program& program, const NetworkMapOptions& options);

class NetworkMaps {
 public:
  /// `views` decides which forms of each map are stored.
  NetworkMaps(const Program& program, const NetworkMapOptions& options, Engine& engine,
              const MapViews& views);
  llvm::Error allocate_host();

  /// Returns OutOfRange if `count` is larger than the number of coordinates that a cloud may have.
  llvm::Error check_count(i64 count) const;
  i64 most_coordinates() const;
  /// Returns the number of coordinates that place() reserves memory for.
  i64 capacity() const { return capacity_; }
  void set_capacity(i64 coordinates) { capacity_ = coordinates; }
  /// Lets place() reserve memory for the largest number of rows that each level may have, instead of the
  /// expected number. needs_room() is then always false.
  void reserve_most_rows() { reached_.expect_most(); }
  /// Returns the largest number of rows that a level may have if there are this many coordinates.
  i64 most_rows(i32 level, i64 coordinates) const {
    if (program_.levels[level].holds_items) return options_.batch_size;
    if (holds_points()) return coordinates;
    return reached_.most_rows(static_cast<std::size_t>(level), coordinates);
  }
  /// Returns true if the last build() found that a level has more rows than place() reserved memory for. The
  /// caller must then place the parts again, which are larger now, and call build() again. This happens only
  /// for levels that are reached or made of two others, whose number of rows is estimated.
  bool needs_room() const { return needs_room_; }
  void place(Placement& parts);
  /// Places the memory that is in use only until the views of the maps are made. Call it after place().
  void place_workspace(Placement& parts);
  /// Places the positions of pairs (MapView::positions) of some maps. Call it before place_workspace().
  void place_positions(Placement& parts, llvm::ArrayRef<i32> maps);
  /// Uploads the numbers 0, 1, 2, ... to the memory that identity() returns, and empties the hash table of
  /// the index, if there is one. Call it after each place(), unless NetworkMapOptions::is_stateless is set.
  llvm::Error fill(Device& device);

  /// Builds the sets and maps of a cloud. The function waits for the device once. With an index, it waits
  /// twice more and builds twice if no bounds are declared and the cloud is outside the range of the index's
  /// keys. With the sorted method, it waits twice for the first cloud if no bounds are declared, or if the
  /// keys need more bits than those of earlier clouds.
  llvm::Error build(const i32* coordinates, i64 count);
  /// Determines the number of key bits, or the range of the index, if the options give capacities. It must
  /// then be called before enqueue().
  llvm::Error find_limits();
  /// Enqueues the work that builds the sets and maps of a cloud. If the options give capacities, this
  /// function takes the place of build(). `given_count` points to the number of coordinates in device memory.
  /// If it is null, there are `most` coordinates. A cloud that does not fit into the capacities gets no rows,
  /// and a bit in status() says why.
  llvm::Error enqueue(const i32* coordinates, const i32* given_count, i64 most);

  // The following functions return the results of the last build.

  MapMethod method() const { return indexes() ? MapMethod::Indexed : MapMethod::Sorted; }
  KeyType key() const { return levels_[0].key; }
  /// Returns the number of rows of a level (coordinate set).
  i64 rows(i32 level) const { return host_report_[kLevelsAt + level]; }
  /// Returns the device address of the number of rows of a level (coordinate set).
  i32* count(i32 level) const { return levels_[level].count; }
  const Coords& coords(i32 level) const { return levels_[level]; }
  const MapView& map(i32 map) const { return maps_[map]; }
  const i32* pairs(i32 map) const { return host_report_ + report_offset_[map]; }
  /// Copies the status and the words of counts() to the host and waits for them. `counts` must have one word
  /// more than there are levels.
  llvm::Error read_state(u32& status, llvm::MutableArrayRef<i32> counts);
  /// Returns the device address of 1 + levels words: the number of the caller's rows, then the number of rows
  /// of each level.
  const i32* counts() const { return state_.points; }
  /// Returns the device address of the status bits (kStatus... in map_kernels.h), which are 0 if the cloud is
  /// valid.
  const u32* status() const { return state_.status; }
  /// Counts the superblocks of each level that is in an index (voxel_index.h), and sets the counts of all
  /// other levels to -1. The caller must have waited for the work of the last build. It must not be called if
  /// NetworkMapOptions::is_stateless is set.
  llvm::Error count_superblocks(Device& device, llvm::MutableArrayRef<i64> counts) const;
  /// Returns an array on the device, whose element i is the caller's row for row i of level 0 (the finest
  /// set).
  const i32* source_row() const { return source_row_; }
  /// Returns an array on the device, whose element i is the row of level 0 (the finest set) for the caller's
  /// row i.
  const i32* row_of() const { return row_of_; }
  /// Returns the device address of the numbers 0, 1, 2, ..., as many as the largest level has rows. They
  /// serve as both tables (GmasTables) of a map with one offset from a set to itself.
  i32* identity() const { return identity_; }
  /// Writes the coordinates of a level to int32 [rows, 1 + ndim], in the order of its rows.
  llvm::Error unpack(i32 level, i32* coordinates) const;
  /// Returns the device address of one word per layer, which is 0 when a cloud begins. These words follow
  /// the report (report_) in memory, so that one operation clears both, also in a replayed graph.
  u32* layer_words() const { return report_ ? reinterpret_cast<u32*>(report_ + report_words_) : nullptr; }
  /// Returns device memory for the coordinates of level 0 (the finest set), or of an output's level that
  /// lacks axes.
  i32* coordinates() const { return coordinates_; }
  /// Returns the coordinates of the rows of a level (LevelSpec::keeps_coordinates), batch first,
  /// [rows, 1 + ndim].
  const i32* coordinates_of(i32 level) const { return kept_coordinates_[level]; }

 private:
  MapLimits limits(i32 key_bits) const;
  /// Returns true if the sets and maps of clouds are made with an index of voxels (voxel_index.h).
  bool indexes() const;
  /// Returns true if the coordinates of the level (coordinate set) are in use after the views are made,
  /// because the caller reads those of an output.
  bool keeps_keys(std::size_t level) const;
  /// Returns the number of levels that are coordinate sets. They come before a level that holds batch items.
  std::size_t sets() const { return reached_.sets().size(); }
  void place_masks(Placement& parts, bool kept);
  /// Places the tables of rows of those maps whose rows are not looked up in an index. If `kept` is true,
  /// places those that Execution::run() reads, and otherwise those that are needed only to make views.
  void place_rows(Placement& parts, bool kept);
  void place_rows_of_level(Placement& parts, std::size_t level);
  std::vector<i64> capacities() const;
  /// Returns NetworkMapOptions::level_slots of the levels that are coordinate sets.
  llvm::ArrayRef<i64> declared_slots() const {
    const llvm::ArrayRef<i64> slots(options_.level_slots);
    return slots.empty() ? slots : slots.take_front(sets());
  }
  void assign_rows();
  /// Returns true if the only level is one of points. There are then rows, but no sets and no maps to search.
  bool holds_points() const { return program_.levels.front().holds_points; }
  i64 capacity_of(std::size_t level) const {
    if (options_.has_capacities()) return options_.level_capacity[level];
    if (holds_points()) return capacity_;
    return level < sets() ? reached_.estimated_rows(level, capacity_) : options_.batch_size;
  }
  /// Returns the largest capacity of a level.
  i64 most_capacity() const;
  i64 most_unpacked_rows() const;
  llvm::Error find_layout(const i32* coordinates, const i32* given_count, i64 most);
  llvm::Error read_words();
  /// Returns the key layout for the declared bounds, or for those that have been read back.
  llvm::Expected<KeyLayout> needed_layout(i64 count) const;
  llvm::Error build_sorted(const BuildCoordsRequest& build);
  llvm::Error search_sorted();
  llvm::Error build_by_sorting(const i32* coordinates, i64 count);
  llvm::Error build_by_index(const i32* coordinates, i64 count);
  /// Writes the number of points, of which there are `most` if `given_count` is null.
  llvm::Error enqueue_points(const i32* given_count, i64 most);
  llvm::Error enqueue_sorted(const i32* coordinates, const i32* given_count, i64 most);
  llvm::Error enqueue_indexed(const i32* coordinates, const i32* given_count, i64 most);
  llvm::Error count_items();
  llvm::Error void_failed();
  llvm::Error search_indexed();
  /// Sets description_ to that of an index for coordinates inside `bounds`.
  llvm::Error describe(const Bounds& bounds);
  /// Finds the bounds of a cloud that is outside the range of the index's keys, and describes an index
  /// that accepts the cloud and, if keys have enough bits, similar clouds. The function waits for the
  /// device.
  llvm::Error widen_index(const i32* coordinates, i64 count);
  llvm::Error take_report(i64 count);
  llvm::Error list_coordinates();
  llvm::Error check_limits(const Bounds& bounds) const;

  const Program& program_;
  const NetworkMapOptions options_;
  Engine& engine_;
  i64 capacity_ = 0;
  ReachedLevels reached_;
  bool needs_room_ = false;
  std::size_t counted_maps_ = 0;  // Counts the maps that place_positions() was given.
  // The key layout of each cloud must have this guard and this period on each axis (key_layout.h).
  i64 guard_[kMaxDim] = {}, period_[kMaxDim] = {1, 1, 1, 1};
  KeyBits key_bits_;
  std::vector<Coords> levels_;
  std::vector<MapView> maps_;
  // An element is true if an index replaces the row table of the map.
  std::vector<bool> looks_up_;
  // An element is true if Execution::run() reads the row table of the map or its masks.
  std::vector<bool> keeps_rows_;

  CloudState state_;
  i32* report_ = nullptr;
  i32 *identity_ = nullptr, *source_row_ = nullptr, *row_of_ = nullptr, *coordinates_ = nullptr;
  // Holds, for each level, the coordinates of its rows, or null.
  std::vector<i32*> kept_coordinates_;
  void* map_workspace_ = nullptr;
  // Describes the index without its memory. It is empty before the first call of build() or find_limits().
  std::optional<VoxelIndex> description_;
  IndexMemory index_;

  // The following members describe the report, which one copy brings to the host. The report contains the
  // status, the number of points, the row count of each level, the bounds, and the pair counts of each map.
  static constexpr i64 kLevelsAt = 2;
  i64 bounds_at() const { return kLevelsAt + static_cast<i64>(levels_.size()); }
  i64 report_words_;
  i64 cleared_words() const { return report_words_ + static_cast<i64>(program_.layers.size()); }
  // Holds the position of the first count of each map in the report, in words.
  std::vector<i64> report_offset_;
  i32* host_report_ = nullptr;
};

}  // namespace minuet
