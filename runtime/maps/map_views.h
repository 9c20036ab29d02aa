// Decides which views of an execution's kernel maps are needed and stored, places them, and makes all views
// of a prepare together.
#pragma once

#include <memory>
#include <vector>

#include "runtime/maps/coordinate_set.h"
#include "runtime/program/program.h"

namespace minuet {

/// One direction of a map that at least one op reads in this form.
struct ViewNeed {
  i32 map = 0;
  bool transposed = false;
  ViewForm form = ViewForm::None;
};

/// A map in one prepare, with the rows of its two sides.
struct MapUse {
  i32 map = -1;             // -1: the op reads no map
  bool transposed = false;  // the direction in which the op reads it
  MapView view;
  Coords sources, queries;  // the finer side, the coarser side
  // The caller's map, which keeps views for all executions on its queue; may be null.
  const KernelMap* owner = nullptr;
};

class MapViews {
 public:
  /// `needs` has every view that an op of the execution may read. `order` is the plan's preference for masked
  /// views. Capacity mode (`has_capacities`) always uses an order: kernels read an ordered view with a stride
  /// of its capacity, but a plain table with a stride of its row count, which only the device knows.
  MapViews(const Program& program, Engine& engine, std::vector<ViewNeed> needs, RowOrder order,
           bool has_capacities);

  // ---- decided by the needs, for every cloud ---------------------------------------------------
  /// Returns true if masked views are ordered, and false if no op reads a masked view.
  bool has_order() const { return order_ != RowOrder::AsTheyCome; }
  /// Returns true if every view of the map is an ordered one that can be made from an index of cells, without
  /// a table of the map's rows. A transposed view also requires `fills_cells`: the kernel's offsets are
  /// exactly the places of a cell.
  bool may_look_up(i32 map, bool fills_cells) const;
  /// Returns true if runs read the map's own table of rows, or its masks.
  bool keeps_rows(i32 map) const;

  // ---- steps of a prepare, in this order -------------------------------------------------------
  /// Forgets all views of the last prepare.
  void begin();
  /// Adds a view that an op reads; several ops may add the same view. `form` is Rows or Masked.
  llvm::Error add(const MapUse& use, ViewForm form);
  void place_views(Placement& parts);
  /// Places the memory that only make_views() uses.
  void place_workspace(Placement& parts);
  llvm::Error make_views();
  /// Makes the views of several executions of one queue together, instead of calling make_views() of each.
  static llvm::Error make_views(llvm::ArrayRef<MapViews*> views, Queue& queue);

  // ---- results ---------------------------------------------------------------------------------
  /// Returns an empty view if each row is its own only neighbour.
  NeighbourView view(i32 map, bool transposed, ViewForm form) const;

 private:
  /// One direction of a map in one form.
  struct Side {
    bool used = false;
    bool unmade = false;
    std::shared_ptr<SharedView> shared;  // the owner's view; null if there is no owner
    MapView view;                        // with the neighbours of this form only
    bool has_masks = false;              // true if the cloud's map has masks of its coarser side
    Coords sources, queries;
  };
  struct Map {
    Side sides[2][2];  // [transposed][form is Masked]
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
  /// Places the parts of a view that runs read. The next function places those needed only to make it.
  void place_view(Placement& parts, Side& side, bool transposed, ViewForm form) const;
  void place_view_workspace(Placement& parts, Side& side, bool transposed, ViewForm form) const;
  static void place_rows(Placement& parts, Side& side, bool transposed);
  void place_unmade(Placement& parts, PlaceView place);
  llvm::Error finish_views();

  const Program& program_;
  Engine& engine_;
  const std::vector<ViewNeed> needs_;
  const RowOrder order_;
  std::vector<Map> maps_;
  std::vector<OffsetOrder> offsets_;   // by map; filled when a prepare first uses the map
  std::vector<ViewRequest> requests_;  // one for each view to be made
  std::vector<ViewForm> forms_;        // the form of each request
  void* workspace_ = nullptr;          // used by make_views()
  i32* mask_counts_ = nullptr;         // required by make_masks(); not read
};

}  // namespace minuet
