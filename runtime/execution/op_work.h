// What an execution has for the ops of one family, without knowing what they compute.
#pragma once

#include <memory>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/device.h"
#include "runtime/maps/map_views.h"
#include "runtime/plan/compiled_plan.h"

namespace minuet {

/// What all works of an execution share. It outlives them.
struct OpWorkContext {
  const Program& program;
  const CompiledPlan& compiled;
  const Device& device;
  Engine& engine;
  const MapViews& views;
  i64 scratch_bytes = 0;  // that a layer's buffers should not pass; 0: by the cloud's size
};

/// One op of a prepare, as it will run.
struct OpUse {
  i32 layer = 0;
  i64 output_rows = 0;
  MapUse map;
  /// The pairs of each offset of the map, on the host. May wait.
  llvm::function_ref<llvm::Expected<const i32*>()> counts;
};

/// What reports say of an op that is prepared.
struct OpReport {
  i64 padded_rows = 0;
  i32 gemm_groups = 0;
};

/// Tables, slices and buffers that the ops of one family share in an execution. An op that a prepare runs
/// otherwise leaves nothing here. Memory is placed by the place_ functions; every place_ function may
/// be called with a null base to measure.
class OpWork {
 public:
  virtual ~OpWork() = default;

  /// Once, before the first prepare.
  virtual llvm::Error allocate_host() { return llvm::Error::success(); }
  /// Memory that does not depend on a cloud.
  virtual void place_fixed(Placement&) {}

  // ---- a prepare: begin(), add() for each op, the place_ functions, then finish() ------------
  /// No op is in use yet. `most_rows`: of any level.
  virtual void begin(i64 /*most_rows*/) {}
  virtual llvm::Error add(const OpUse&) { return llvm::Error::success(); }
  /// In place of add(), for a workspace that is only measured: every level has `rows` rows, and every output
  /// row `neighbours` pairs.
  virtual void bound(i32 /*layer*/, i64 /*rows*/, double /*neighbours*/) {}
  /// What runs read. `identity`: 0, 1, 2, ... as many as any level has rows; null where the maps are the
  /// caller's.
  virtual void place_tables(Placement&, i32* /*identity*/) {}
  /// What the tables are made with.
  virtual void place_workspace(Placement&) {}
  /// What runs write, in the same memory as the workspace.
  virtual void place_buffers(Placement&) {}
  /// Everything is placed: enqueues what fills the tables.
  virtual llvm::Error finish() { return llvm::Error::success(); }

  // ---- what is prepared ----------------------------------------------------------------------
  /// Passes the family's request for the layer, which `candidate` runs, to `enqueue`: `common` with what the
  /// kernels read beside it.
  virtual llvm::Error with_request(const Candidate& candidate, i32 layer, const OpRequest& common,
                                   llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const = 0;
  virtual OpReport report(i32 /*layer*/) const { return {}; }
};

/// The work of a family whose kernels read a view of the map, and nothing else.
std::unique_ptr<OpWork> make_view_work(const OpWorkContext& context);

/// A line of the table of families (families.cc).
struct WorkOfFamily {
  const OpFamily& family;
  std::unique_ptr<OpWork> (*make)(const OpWorkContext& context);
};
llvm::ArrayRef<WorkOfFamily> works_of_families();

/// Internal where there is no work for the family.
llvm::Expected<std::unique_ptr<OpWork>> make_op_work(const OpFamily& family, const OpWorkContext& context);

}  // namespace minuet
