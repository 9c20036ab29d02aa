// What gather-GEMM-scatter has in an execution: groups and tables of the maps that its layers use, slices of
// their GEMMs, and the buffers. A layer that another dataflow runs leaves nothing here.
#pragma once

#include <memory>
#include <vector>

#include "runtime/maps/cloud_maps.h"
#include "runtime/maps/coordinate_set.h"

namespace minuet {

class GmasWork {
 public:
  /// scratch_bytes: that a layer's buffers should not pass; 0: by the cloud's size.
  GmasWork(const Program& program, const GroupingChoice& grouping, Engine& engine, i64 scratch_bytes);
  llvm::Error allocate_host();
  void place_fixed(Placement& parts);

  // ---- a prepare, in this order --------------------------------------------------------------
  /// No map and no layer is in use yet. `most_rows`: of any level.
  void begin(i64 most_rows);
  /// A map that add_layer's layers use: its pairs by offset. `keeper`: the caller's map, which keeps the view
  /// for all on its queue; or null.
  llvm::Error add_map(i32 map, const MapView& view, const Coords& queries, const i32* counts,
                      const KernelMap* keeper);
  /// In place of add_map, for a workspace that is only measured: as padded as groups may get.
  void bound_map(i32 map, i64 rows, double neighbours);
  bool has_map(i32 map) const { return maps_[map].used; }
  void add_layer(i32 layer, i64 output_rows);
  /// `cloud`: whose identity() stands for both tables of a map that is one; null where maps are the caller's.
  void place_tables(Placement& parts, const CloudMaps* cloud);
  /// What fills the tables, and nobody after it.
  void place_workspace(Placement& parts);
  void place_buffers(Placement& parts);
  /// Everything is placed: slices, and what fills the tables, enqueued.
  llvm::Error finish();

  // ---- what is prepared ----------------------------------------------------------------------
  GmasOperands operands(i32 layer) const;
  /// Null for a map that no layer of this dataflow uses.
  const GroupPlan* groups(i32 map) const { return maps_[map].used ? &maps_[map].shown->groups : nullptr; }

 private:
  struct Map {
    bool used = false;
    bool is_identity = false;  // and its tables are nobody's
    MapView view;
    Coords queries;
    bool finds_positions = false;  // which a cloud's maps lack
    std::shared_ptr<GmasView> own;
    std::shared_ptr<const GmasView> shown;  // the own one, or one of the keeper's
    std::shared_ptr<GmasView> unfilled;     // the same, where this prepare makes it
    const KernelMap* keeper = nullptr;
    GmasTables tables;
    i64 table_offset = 0;  // of its group tables, in words
  };
  struct Layer {
    i32 number = 0;
    i64 output_rows = 0;
  };

  llvm::Error choose_view(Map& map, i32 direct);
  const GroupPlan& groups_of(i32 layer) const { return maps_[program_.layers[layer].map].shown->groups; }
  i64 slice_rows_of(i32 layer) const;

  const Program& program_;
  const GroupingChoice& grouping_;
  Engine& engine_;
  const i64 wanted_scratch_bytes_;
  i64 scratch_bytes_ = 0;
  std::vector<Map> maps_;
  std::vector<Layer> layers_;       // in use
  std::vector<GemmSlices> slices_;  // by layer of the program
  i64 table_words_ = 0;
  i32 *tables_ = nullptr, *host_tables_ = nullptr;  // group tables of all maps
  void* gather_buffer_ = nullptr;
  float *gemm_buffer_ = nullptr, *sums_ = nullptr;
};

}  // namespace minuet
