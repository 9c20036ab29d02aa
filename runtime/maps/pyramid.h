// Declares a pyramid: coordinate sets and kernel maps whose sizes only the device knows, in one buffer of the
// caller. The sets are derived from one set of coordinates.
//
// A Pyramid describes the sets and maps. It is immutable and depends on no device. A PlacedPyramid divides
// the caller's buffer into parts, in the same way wherever the buffer lies, and fills them.
#pragma once

#include <memory>
#include <vector>

#include "runtime/maps/network_maps.h"

namespace minuet {

/// Describes one coordinate set of a pyramid. Level 0 is the caller's set, and has tensor stride 1.
struct PyramidLevel {
  i32 parent =
      -1;  // Holds the number of an earlier level, from which the set is derived. It is -1 for level 0.
  i32 other_parent = -1;         // Has the meaning of SetSpec::other_parent.
  bool is_intersection = false;  // Has the meaning of SetSpec::is_intersection.
  // Divides the set's tensor stride by its parent's, unless it is a union, or the parent's by the set's if it
  // is made by a generative op.
  AxisArray stride{1, 1, 1, 1};
  std::optional<ReachSpec> reach;  // Has the meaning of SetSpec::reach.
  AxisArray shape{};               // Has the meaning of SetSpec::shape.
  i64 capacity = 0;                // Limits the number of rows.
  i64 slots = 0;                   // Has the meaning of an element of NetworkMapOptions::level_slots.
  bool keeps_coordinates = false;  // Says whether the buffer contains the coordinates of the rows.
  // Says whether ops of the network read or write a dense tensor of the level. It then has its coordinates.
  bool is_dense = false;
};

/// Says that ops of one kind read a map in one direction.
struct PyramidNeed {
  i32 map = 0;
  bool transposed = false;
  const OpKind* kind = nullptr;
  bool operator==(const PyramidNeed&) const = default;
};

/// Names the purpose that a caller gives a map for ops of one kind in one direction.
struct PyramidPurpose {
  u32 bit = 0;
  const char* name = "";
  bool transposed = false;
  const OpKind* kind = nullptr;
};

struct PyramidDescription {
  i32 ndim = 3;
  bool keep_first_duplicate = false;
  bool has_bounds = false;
  Bounds bounds;
  i32 batch_size = 0;  // Holds the number of batch items, or 0 if it is not declared.
  std::vector<PyramidLevel> levels;
  std::vector<MapSpec> maps;
  std::vector<PyramidNeed> needs;
  // Lists the maps whose pairs can be exported.
  std::vector<i32> exported_maps;
  // Lists all purposes of maps, for messages. It is empty if the maps are those of a network.
  llvm::ArrayRef<PyramidPurpose> purposes;
};

class Pyramid {
 public:
  /// Returns InvalidArgument or OutOfRange if there can be no such sets and maps.
  static llvm::Expected<std::shared_ptr<const Pyramid>> create(PyramidDescription description);
  /// Returns InvalidArgument if a pyramid cannot have this number of levels.
  static llvm::Error check_count(llvm::ArrayRef<PyramidLevel> levels);
  /// Adds the levels, the maps and the needs of a network to a description that has none. Element i of
  /// `capacities` belongs to level i of the network, and so does that of `slots`, unless this is empty.
  /// Levels with the same coordinates become one. A level that holds batch items is left out, because it is
  /// no set. Returns Unimplemented for a network whose maps cannot be made in advance.
  static llvm::Error describe(const Program& network, llvm::ArrayRef<i64> capacities,
                              llvm::ArrayRef<i64> slots, PyramidDescription& description);

  const PyramidDescription& description() const { return description_; }
  i32 ndim() const { return description_.ndim; }
  i32 levels() const { return static_cast<i32>(program_.levels.size()); }
  i64 capacity(i32 level) const { return description_.levels[level].capacity; }
  /// Returns the pyramid as a program without ops.
  const Program& program() const { return program_; }
  const NetworkMapOptions& map_options() const { return options_; }
  /// Returns the views that the buffer contains on a device of this architecture.
  std::vector<ViewNeed> view_needs(llvm::StringRef arch) const;
  /// Returns true if the map is made for ops of this kind in this direction.
  bool serves(const PyramidNeed& need) const { return llvm::is_contained(description_.needs, need); }
  /// Returns the level that has the coordinates of a level of `program`, or -1.
  i32 find_level(const Program& program, i32 level) const;
  /// Returns the number of the map, or -1.
  i32 find_map(const MapSpec& map) const;
  /// Returns the largest number of pairs that the map may have.
  i64 most_pairs(i32 map) const { return program_.maps[map].volume() * capacity(program_.maps[map].coarse); }
  bool exports(i32 map) const { return llvm::is_contained(description_.exported_maps, map); }

 private:
  Pyramid() = default;
  llvm::Error add_levels();
  llvm::Error add_maps();
  llvm::Error check_needs() const;

  PyramidDescription description_;
  Program program_;
  NetworkMapOptions options_;
};

/// Represents a pyramid in memory of a device. The class is not thread-safe.
class PlacedPyramid {
 public:
  /// `engine` must outlive this object. `arch` is that of the engine's device.
  PlacedPyramid(std::shared_ptr<const Pyramid> pyramid, Engine& engine, llvm::StringRef arch);
  /// Must be called once, before all other functions.
  llvm::Error find_limits() { return maps_.find_limits(); }

  struct Bytes {
    i64 buffer = 0, workspace = 0;
  };
  /// Returns the sizes of the buffer and of the workspace of build().
  llvm::Expected<Bytes> measure();
  /// Uses the buffer of build(), which may lie elsewhere than at that time. `workspace` is null if build() is
  /// not called. Both begin on a multiple of kArenaAlignment.
  llvm::Error place(void* buffer, void* workspace);

  // The following functions may be called after place(), between begin() and end() of the engine. They only
  // enqueue work.

  /// Makes the sets and the maps. `given_count` points to the number of coordinates in device memory. If it
  /// is null, there are `most` coordinates.
  llvm::Error build(const i32* coordinates, const i32* given_count, i64 most);
  /// Copies the coordinates of a level (PyramidLevel::keeps_coordinates), [capacity, 1 + ndim]. Those behind
  /// the last row are 0.
  llvm::Error copy_coordinates(i32 level, i32* coordinates) const;
  /// Writes the pairs of a map to `pairs`, which has room for `capacity` pairs, and their number to `count`.
  llvm::Error export_pairs(i32 map, i32* pairs, i64 capacity, i32* count);
  /// Returns the request that lists the pairs of a map as export_pairs() does. If `in_set_order` is true,
  /// rows of level 0 have the numbers of the set, and not those of the caller.
  PairsRequest pairs_request(i32 map, i32* pairs, i64 capacity, i32* count, bool in_set_order) const;

  const Pyramid& pyramid() const { return *pyramid_; }
  /// Returns the coordinates of a level (PyramidLevel::keeps_coordinates), or null.
  const i32* coordinates(i32 level) const { return coordinates_[level]; }
  const NetworkMaps& maps() const { return maps_; }
  /// Returns the map with the arrays of one of its views, or null if the view is not needed, because each row
  /// is its only neighbour.
  const MapView* view(i32 map, bool transposed, ViewForm form) const {
    return views_.made(map, transposed, form);
  }

 private:
  llvm::Error make_views();
  llvm::Error place(Placement buffer, Placement workspace, Bytes& used);
  Coords coords(i32 level) const;

  const std::shared_ptr<const Pyramid> pyramid_;
  Engine& engine_;
  const std::vector<ViewNeed> needs_;
  MapViews views_;
  NetworkMaps maps_;
  // Holds, for each level, a copy of its coordinates, or null.
  std::vector<i32*> coordinates_;
};

}  // namespace minuet
