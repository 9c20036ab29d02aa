// What the fused dataflow has in an execution: the views of the maps that its layers use.
#pragma once

#include <memory>
#include <vector>

#include "runtime/maps/cloud_maps.h"
#include "runtime/maps/coordinate_set.h"

namespace minuet {

class FusedWork {
 public:
  /// `masks`: the engine's kernels read those of queries that come as they come, too.
  FusedWork(const Program& program, Engine& engine, RowOrder order, bool masks);

  // ---- a prepare, in this order --------------------------------------------------------------
  /// No map is in use yet.
  void begin();
  /// The layer's map, in its direction, and the rows of its two sides. `keeper`: the caller's map, which
  /// keeps the view for all on its queue; or null.
  llvm::Error add_layer(i32 layer, const MapView& map, const Coords& sources, const Coords& queries,
                        const KernelMap* keeper);
  void place_views(Placement& parts);
  /// What make_views() works in, and nobody after it.
  void place_workspace(Placement& parts);
  llvm::Error make_views();
  /// The same of several executions of one queue, together, in place of each one's own.
  static llvm::Error make_views(llvm::ArrayRef<FusedWork*> works, Queue& queue);

  // ---- what is prepared ----------------------------------------------------------------------
  FusedOperands operands(i32 layer) const;

 private:
  /// One direction of a map.
  struct Side {
    bool used = false;
    bool unmade = false;
    std::shared_ptr<FusedView> shared;  // the keeper's; null where there is none
  };
  struct Map {
    MapView view;
    bool has_masks = false;  // a cloud's has those of its coarser side
    Coords sources, queries;
    Side sides[2];  // transposed second

    NeighbourView& neighbours(bool transposed) { return transposed ? view.transposed : view; }
    const Coords& askers(bool transposed) const { return transposed ? sources : queries; }
  };

  using PlaceView = void (FusedWork::*)(Placement& parts, Map& map, bool transposed) const;

  void find_offsets(i32 map);
  void ask_for(i32 map, bool transposed);
  void note_made();
  bool is_ordered() const { return order_ != RowOrder::AsTheyCome; }
  /// What runs read of a view, and what else it is made with.
  void place_view(Placement& parts, Map& map, bool transposed) const;
  void place_view_workspace(Placement& parts, Map& map, bool transposed) const;
  static void place_rows(Placement& parts, Map& map, bool transposed);
  void place_unmade(Placement& parts, PlaceView place);
  llvm::Error make_plain_masks();

  const Program& program_;
  Engine& engine_;
  const RowOrder order_;
  const bool masks_;
  std::vector<Map> maps_;
  std::vector<OffsetOrder> offsets_;   // of each map, once some prepare used it
  std::vector<ViewRequest> requests_;  // of the views that are unmade
  void* workspace_ = nullptr;          // of make_views
  i32* mask_counts_ = nullptr;         // that nobody reads, of masks without an order
};

}  // namespace minuet
