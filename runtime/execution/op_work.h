// Declares the state that an execution keeps for the ops of one family. Its users do not know what these ops
// compute.
#pragma once

#include <memory>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/device.h"
#include "runtime/maps/map_views.h"
#include "runtime/plan/compiled_plan.h"

namespace minuet {

/// Holds the data that all OpWork objects of an execution share. The data must outlive these objects.
struct OpWorkContext {
  const Program& program;
  const CompiledPlan& compiled;
  const Device& device;
  Engine& engine;
  const MapViews& views;
  // Limits the bytes of the buffers of a layer that runs as gather-GEMM-scatter. If the value is 0, the limit
  // depends on the size of the cloud.
  i64 scratch_bytes = 0;
  // Holds the number of batch items, or 0 if the caller has not declared it.
  i32 batch_size = 0;
};

/// Describes one op, with its rows and its kernel map, for the cloud or the maps of a prepare call.
struct OpUse {
  i32 layer = 0;
  i64 output_rows = 0;
  MapUse map;
  /// Returns the number of pairs of each offset of the map, in host memory. The function may wait.
  llvm::function_ref<llvm::Expected<const i32*>()> counts;
  // Points to the coordinates of ProgramLayer::coordinates_level, batch first, [rows, 1 + ndim]. It is null
  // if the op reads none.
  const i32* coordinates = nullptr;
  i64 input_rows = 0;
};

/// Holds figures about a prepared op, for reports.
struct OpReport {
  i64 padded_rows = 0;
  i32 gemm_groups = 0;
};

/// Keeps the tables, slices and buffers that the ops of one family share in an execution. An op for which a
/// prepare call selects another family uses none of them. The place_ functions take memory from a Placement.
/// Each of them may also be called with a Placement of a null base, which only measures the memory.
class OpWork {
 public:
  virtual ~OpWork() = default;

  /// Allocates host memory. It is called once, before the first prepare.
  virtual llvm::Error allocate_host() { return llvm::Error::success(); }
  /// Places memory whose size does not depend on the cloud.
  virtual void place_fixed(Placement&) {}

  // A prepare call uses the following functions in this order: begin(), add() for each op, the place_
  // functions, and finish().

  /// Forgets all ops of the last prepare. `most_rows` is the number of rows of the largest coordinate set.
  virtual void begin(i64 /*most_rows*/) {}
  virtual llvm::Error add(const OpUse&) { return llvm::Error::success(); }
  /// Takes the place of add() when Execution::workspace_bound() only measures the memory. Every coordinate
  /// set then has `rows` rows, and every output row has `neighbours` pairs.
  virtual void bound(i32 /*layer*/, i64 /*rows*/, double /*neighbours*/) {}
  /// Places the tables that Execution::run() reads. `identity` holds 0, 1, 2, ... for as many rows as the
  /// largest coordinate set has. It is null if the caller gives the maps.
  virtual void place_tables(Placement&, i32* /*identity*/) {}
  /// Places the memory that is needed only to make the tables.
  virtual void place_workspace(Placement&) {}
  /// Places the buffers that Execution::run() writes. They may overlap the memory of place_workspace().
  virtual void place_buffers(Placement&) {}
  /// Enqueues the work that fills the tables. It is called once all memory is placed.
  virtual llvm::Error finish() { return llvm::Error::success(); }

  // The following functions may be called only after finish().

  /// Calls `enqueue` with the family's request for the layer that `candidate` computes. The request consists
  /// of `common` and of the other data that the family's kernels read.
  virtual llvm::Error with_request(const Candidate& candidate, i32 layer, const OpRequest& common,
                                   llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const = 0;
  virtual OpReport report(i32 /*layer*/) const { return {}; }
};

/// Returns an OpWork for a family whose kernels read a view of the map and nothing else.
std::unique_ptr<OpWork> make_view_work(const OpWorkContext& context);

/// Represents one row of the table of families in families.cc.
struct WorkOfFamily {
  const OpFamily& family;
  std::unique_ptr<OpWork> (*make)(const OpWorkContext& context);
};
llvm::ArrayRef<WorkOfFamily> works_of_families();

/// Returns a new OpWork for `family`, or an Internal error if the family is not in the table.
llvm::Expected<std::unique_ptr<OpWork>> make_op_work(const OpFamily& family, const OpWorkContext& context);

}  // namespace minuet
