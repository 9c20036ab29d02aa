// The coordinate sets and kernel maps of a network for one cloud at a time, in an execution's arena.
#pragma once

#include <vector>

#include "runtime/arena.h"
#include "runtime/cloud_layout.h"
#include "runtime/program.h"

namespace minuet {

struct CloudMapOptions {
  bool keep_first_duplicate = false;
  bool has_bounds = false;
  Bounds bounds;
};

class CloudMaps {
 public:
  CloudMaps(const Program& program, const CloudMapOptions& options, Engine& engine);
  llvm::Error allocate_host();

  /// OutOfRange for more coordinates than one cloud may have.
  llvm::Error check_count(i64 count) const;
  i64 most_coordinates() const;
  /// Coordinates that place() makes room for.
  i64 capacity() const { return capacity_; }
  void set_capacity(i64 coordinates) { capacity_ = coordinates; }
  void place(Placement& parts);
  /// What place() placed is at hand.
  llvm::Error fill(Device& device);

  /// Sets and maps of a cloud; waits twice, once where the bounds were declared.
  llvm::Error find_layout(const i32* coordinates, i64 count);
  llvm::Error build(const i32* coordinates, i64 count);

  // Of the last build:
  i64 rows(i32 level) const { return host_report_[1 + level]; }
  const MapView& map(i32 map) const { return maps_[map]; }
  const i32* pairs(i32 map) const { return host_report_ + report_offset_[map]; }
  /// Of the caller's rows and level 0's.
  const i32* source_row() const { return source_row_; }
  const i32* row_of() const { return row_of_; }
  /// [rows of level 0] 0, 1, 2, ...: both tables of a map of one offset onto its own set.
  i32* identity() const { return identity_; }
  /// int32 [rows, 1 + ndim] of a level, ascending.
  llvm::Error unpack(i32 level, i32* coordinates) const;
  /// Room for level 0's.
  i32* coordinates() const { return coordinates_; }

 private:
  MapLimits limits(KeyType key) const;
  llvm::Error enqueue(const i32* coordinates, i64 count);
  llvm::Error read_report(i64 count);

  const Program& program_;
  const CloudMapOptions options_;
  Engine& engine_;
  i64 capacity_ = 0;
  KeyLayout layout_;
  Bounds bounds_;
  std::vector<Coords> levels_;
  std::vector<MapView> maps_;

  i32 *bounds_words_ = nullptr, *report_ = nullptr;
  i32 *identity_ = nullptr, *source_row_ = nullptr, *row_of_ = nullptr, *coordinates_ = nullptr;
  void* map_workspace_ = nullptr;

  // Host copies: [status, level counts, map counts]; bounds.
  i64 report_words_ = 1;
  std::vector<i64> report_offset_;  // of each map's counts, in words
  i32 *host_report_ = nullptr, *host_bounds_ = nullptr;
};

}  // namespace minuet
