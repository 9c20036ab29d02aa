// The views that ops read of an execution's kernel maps: what is needed of each map and so stored of it,
// where it lies, and how all views of a prepare are made together.
#pragma once

#include <memory>
#include <vector>

#include "runtime/maps/coordinate_set.h"
#include "runtime/program/program.h"

namespace minuet {

/// One direction of a map that some op reads in this form.
struct ViewNeed {
  i32 map = 0;
  bool transposed = false;
  ViewForm form = ViewForm::None;
};

/// A map of one prepare, and the rows of its two sides.
struct MapUse {
  i32 map = -1;             // -1: the op reads none
  bool transposed = false;  // the direction in which the op reads it
  MapView view;
  Coords sources, queries;           // the finer side, the coarser one
  const KernelMap* owner = nullptr;  // the caller's map, which keeps views for all on its queue; or null
};

class MapViews {
 public:
  /// `needs`: every view that some op of the execution may read. `order`: what the plan prefers for masked
  /// views. In capacity mode (`has_capacities`) they are ordered whatever it prefers: kernels take the rows
  /// of an ordered view to lie as far apart as the capacity, and those of a plain table lie as far apart as
  /// the count, which the device alone knows.
  MapViews(const Program& program, Engine& engine, std::vector<ViewNeed> needs, RowOrder order,
           bool has_capacities);

  // ---- what the needs decide, for every cloud ------------------------------------------------
  /// Whether masked views are ordered. AsTheyCome where no op reads any.
  bool has_order() const { return order_ != RowOrder::AsTheyCome; }
  /// Whether every view of the map is an ordered one that can be made from an index of cells, without a table
  /// of the map's rows. `fills_cells`: the kernel's offsets are the places of a cell, which a transposed view
  /// requires.
  bool may_look_up(i32 map, bool fills_cells) const;
  /// Whether runs read the map's own table of rows, or its masks.
  bool keeps_rows(i32 map) const;

  // ---- a prepare, in this order --------------------------------------------------------------
  /// No view is needed yet.
  void begin();
  /// One view that an op reads; many ops may read it. `form`: Rows or Masked.
  llvm::Error add(const MapUse& use, ViewForm form);
  void place_views(Placement& parts);
  /// Memory that make_views() works in. Nothing uses it afterwards.
  void place_workspace(Placement& parts);
  llvm::Error make_views();
  /// Makes the views of several executions of one queue together, in the place of each one's own
  /// make_views().
  static llvm::Error make_views(llvm::ArrayRef<MapViews*> views, Queue& queue);

  // ---- what is prepared ----------------------------------------------------------------------
  /// Without rows where each row is its own neighbour.
  NeighbourView view(i32 map, bool transposed, ViewForm form) const;

 private:
  /// One direction of a map in one form.
  struct Side {
    bool used = false;
    bool unmade = false;
    std::shared_ptr<SharedView> shared;  // the owner's; null where there is none
    MapView view;                        // with the neighbours of this form alone
    bool has_masks = false;              // a cloud's has those of its coarser side
    Coords sources, queries;
  };
  struct Map {
    Side sides[2][2];  // transposed second; of the forms Rows and Masked
  };

  using PlaceView = void (MapViews::*)(Placement& parts, Side& side, bool transposed, ViewForm form) const;

  Side& side_of(i32 map, bool transposed, ViewForm form) {
    return maps_[map].sides[transposed][form == ViewForm::Masked];
  }
  template <class Visitor>
  void visit_sides(const Visitor& visitor);
  void find_offsets(i32 map);
  void ask_for(i32 map, Side& side, bool transposed, ViewForm form);
  void note_made();
  bool is_ordered(ViewForm form) const { return form == ViewForm::Masked && has_order(); }
  bool has_plain_masks(ViewForm form) const { return form == ViewForm::Masked && !has_order(); }
  /// Memory that runs read of a view, and memory that it is made with.
  void place_view(Placement& parts, Side& side, bool transposed, ViewForm form) const;
  void place_view_workspace(Placement& parts, Side& side, bool transposed, ViewForm form) const;
  static void place_rows(Placement& parts, Side& side, bool transposed);
  void place_unmade(Placement& parts, PlaceView place);
  llvm::Error make_plain_masks();

  const Program& program_;
  Engine& engine_;
  const std::vector<ViewNeed> needs_;
  const RowOrder order_;
  std::vector<Map> maps_;
  std::vector<OffsetOrder> offsets_;   // of each map, once some prepare used it
  std::vector<ViewRequest> requests_;  // of the views that are unmade,
  std::vector<ViewForm> forms_;        // and the form of each
  void* workspace_ = nullptr;          // of make_views
  i32* mask_counts_ = nullptr;         // that make_masks() needs and nothing reads
};

}  // namespace minuet
