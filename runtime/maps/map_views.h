// Decides which views of an execution's kernel maps are needed and stored, places them in memory, and makes
// all views that one prepare call needs together.
#pragma once

#include <memory>
#include <vector>

#include "runtime/maps/coordinate_set.h"
#include "runtime/program/program.h"

namespace minuet {

/// Describes a direction and a form in which at least one op may read a map.
struct ViewNeed {
  i32 map = 0;
  bool transposed = false;
  ViewForm form = ViewForm::None;
};

/// Describes a map in one prepare call, with the rows of its two sides.
struct MapUse {
  // Holds the number of the map in the program. It is -1 if the op reads no map.
  i32 map = -1;
  // The flag is true if the op reads the map in the transposed direction.
  bool transposed = false;
  MapView view;
  // The sources are the rows of the finer side, the queries those of the coarser side.
  Coords sources, queries;
  // Points to the caller's map, which keeps views for all executions on its queue. It is null if the map
  // belongs to a network or has no queue.
  const KernelMap* owner = nullptr;
};

class MapViews {
 public:
  /// `needs` must contain every view that an op of the execution may read. `order` is the row order that the
  /// plan prefers for masked views (ViewForm::Masked). Capacity mode (`has_capacities`) always orders masked
  /// views. The reason is that kernels read an ordered view with a stride of its capacity, but a plain table
  /// with a stride of its row count, which only the device knows.
  MapViews(const Program& program, Engine& engine, std::vector<ViewNeed> needs, RowOrder order,
           bool has_capacities);

  // The results of the following functions depend only on the arguments of the constructor, so they are the
  // same for every cloud.

  /// Returns true if masked views (ViewForm::Masked) are ordered. The result is false if no op reads a masked
  /// view.
  bool has_order() const { return order_ != RowOrder::AsTheyCome; }
  /// Returns true if all views of the map can be made from an index of voxels (voxel_index.h), without a
  /// table of the map's rows. This requires that every view is ordered. A transposed view also requires
  /// `fills_voxels`, which means that the kernel's offsets lead from a coarse coordinate to exactly the
  /// fine coordinates in its voxel.
  bool may_look_up(i32 map, bool fills_voxels) const;
  /// Returns true if Execution::run() reads the map's own table of rows, or its masks.
  bool keeps_rows(i32 map) const;

  // The following functions are the steps of a prepare call, in the order in which they must be called.

  /// Forgets all views of the last prepare call.
  void begin();
  /// Adds a view that an op reads. Several ops may add the same view. `form` must be Rows or Masked.
  llvm::Error add(const MapUse& use, ViewForm form);
  /// Adds a view that another object has made (PlacedPyramid). `made` holds its arrays. It replaces the call
  /// of add().
  void take_made(i32 map, const MapView& made, bool transposed, ViewForm form);
  void place_views(Placement& parts);
  /// Places the memory that only make_views() uses.
  void place_workspace(Placement& parts);
  llvm::Error make_views();
  /// Makes the views of several executions of one queue together. It replaces the call of make_views() for
  /// each of them.
  static llvm::Error make_views(llvm::ArrayRef<MapViews*> views, Queue& queue);

  /// Returns the map with the arrays of one of its views, or null if the view was not added.
  const MapView* made(i32 map, bool transposed, ViewForm form) const;
  /// Returns the view that a kernel reads. It is empty if each row is its only neighbour.
  NeighbourView view(i32 map, bool transposed, ViewForm form) const;

 private:
  /// Describes one view, which is one direction of a map in one form.
  struct Side {
    bool used = false;
    bool unmade = false;
    // Points to the view that MapUse::owner keeps. It is null if there is no owner.
    std::shared_ptr<SharedView> shared;
    // Holds a copy of MapUse::view, to which the arrays of this view are added.
    MapView view;
    // The flag is true if the map already has the masks of its coarser side.
    bool has_masks = false;
    Coords sources, queries;
  };
  struct Map {
    // The first index is `transposed`. The second index is 1 for the form Masked and 0 for Rows.
    Side sides[2][2];
  };

  using PlaceView = void (MapViews::*)(Placement& parts, Side& side, bool transposed, ViewForm form) const;

  Side& side_of(i32 map, bool transposed, ViewForm form) {
    return maps_[map].sides[transposed][form == ViewForm::Masked];
  }
  template <class Visitor>
  void visit_sides(const Visitor& visitor);
  void find_offsets(i32 map);
  void ask_for(i32 map, Side& side, bool transposed, ViewForm form);
  bool is_ordered(ViewForm form) const { return form == ViewForm::Masked && has_order(); }
  bool has_plain_masks(ViewForm form) const { return form == ViewForm::Masked && !has_order(); }
  /// Places those arrays of a view that Execution::run() reads.
  void place_view(Placement& parts, Side& side, bool transposed, ViewForm form) const;
  /// Places those arrays of a view that are needed only to make it.
  void place_view_workspace(Placement& parts, Side& side, bool transposed, ViewForm form) const;
  static void place_rows(Placement& parts, Side& side, bool transposed);
  void place_unmade(Placement& parts, PlaceView place);
  llvm::Error finish_views();

  const Program& program_;
  Engine& engine_;
  const std::vector<ViewNeed> needs_;
  const RowOrder order_;
  std::vector<Map> maps_;
  // Holds, for each map, the offsets by which ordered views are sorted. An element is computed when a prepare
  // call first needs an ordered view of the map.
  std::vector<OffsetOrder> offsets_;
  // Holds one request for each view that must still be made.
  std::vector<ViewRequest> requests_;
  // Holds the form of the view that each element of requests_ asks for.
  std::vector<ViewForm> forms_;
  // Points to the workspace of make_views().
  void* workspace_ = nullptr;
  // Points to the counts that make_masks() writes and that nothing reads.
  i32* mask_counts_ = nullptr;
};

}  // namespace minuet
