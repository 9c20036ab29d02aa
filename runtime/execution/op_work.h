// The state that an execution keeps for the ops of one family, without knowing what they compute.
#pragma once

#include <memory>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/device.h"
#include "runtime/maps/map_views.h"
#include "runtime/plan/compiled_plan.h"

namespace minuet {

/// Data that all OpWork objects of an execution share. It outlives them.
struct OpWorkContext {
  const Program& program;
  const CompiledPlan& compiled;
  const Device& device;
  Engine& engine;
  const MapViews& views;
  i64 scratch_bytes = 0;  // limit for the buffers of a layer; 0: depends on the size of the cloud
};

/// One op of a prepare, as it will run.
struct OpUse {
  i32 layer = 0;
  i64 output_rows = 0;
  MapUse map;
  /// Returns the pairs of each offset of the map, on the host. May wait.
  llvm::function_ref<llvm::Expected<const i32*>()> counts;
};

/// Figures about a prepared op, for reports.
struct OpReport {
  i64 padded_rows = 0;
  i32 gemm_groups = 0;
};

/// Tables, slices and buffers that the ops of one family share in an execution. Ops for which a prepare
/// selects another family use none of them. The place_ functions place memory; each may be called with a null
/// base to measure.
class OpWork {
 public:
  virtual ~OpWork() = default;

  /// Called once, before the first prepare.
  virtual llvm::Error allocate_host() { return llvm::Error::success(); }
  /// Places memory that does not depend on a cloud.
  virtual void place_fixed(Placement&) {}

  // ---- a prepare: begin(), add() for each op, the place_ functions, then finish() ------------
  /// Forgets all ops of the last prepare. `most_rows` is the number of rows of the largest level.
  virtual void begin(i64 /*most_rows*/) {}
  virtual llvm::Error add(const OpUse&) { return llvm::Error::success(); }
  /// Called instead of add() when a workspace is only measured: every level has `rows` rows, and every output
  /// row `neighbours` pairs.
  virtual void bound(i32 /*layer*/, i64 /*rows*/, double /*neighbours*/) {}
  /// Places what runs read. `identity` holds 0, 1, 2, ... for as many rows as the largest level has; null if
  /// the caller gives the maps.
  virtual void place_tables(Placement&, i32* /*identity*/) {}
  /// Places the memory that is needed only to make the tables.
  virtual void place_workspace(Placement&) {}
  /// Places what runs write; it shares memory with the workspace.
  virtual void place_buffers(Placement&) {}
  /// Enqueues what fills the tables. Called once everything is placed.
  virtual llvm::Error finish() { return llvm::Error::success(); }

  // ---- the prepared state ---------------------------------------------------------------------
  /// Calls `enqueue` with the family's request for the layer, which `candidate` runs: `common` with what the
  /// family's kernels read in addition.
  virtual llvm::Error with_request(const Candidate& candidate, i32 layer, const OpRequest& common,
                                   llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const = 0;
  virtual OpReport report(i32 /*layer*/) const { return {}; }
};

/// Returns the work of a family whose kernels read a view of the map, and nothing else.
std::unique_ptr<OpWork> make_view_work(const OpWorkContext& context);

/// One line of the table of families (families.cc).
struct WorkOfFamily {
  const OpFamily& family;
  std::unique_ptr<OpWork> (*make)(const OpWorkContext& context);
};
llvm::ArrayRef<WorkOfFamily> works_of_families();

/// Returns Internal if the family is not in the table.
llvm::Expected<std::unique_ptr<OpWork>> make_op_work(const OpFamily& family, const OpWorkContext& context);

}  // namespace minuet
