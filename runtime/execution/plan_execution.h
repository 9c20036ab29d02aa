// Represents one caller's use of a loaded plan, whatever the plan is. The C ABI knows executions only by this
// interface. An Execution implements it for a program of one stage, and a StagedExecution for a program whose
// layers make levels (coordinate sets) in each run.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "codegen/base/trace.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/overlap.h"
#include "runtime/engine/queue.h"
#include "runtime/engine/tensor.h"
#include "runtime/execution/execution_options.h"
#include "runtime/execution/op_work.h"
#include "runtime/maps/network_maps.h"
#include "runtime/plan/parameter_set.h"

namespace minuet {

class Execution;

/// Points to the state of a cloud in device memory (capacity mode): the kStatus... bits (map_kernels.h), and
/// the number of the caller's rows, followed by the number of rows of each level.
struct CloudWords {
  const u32* status = nullptr;
  const i32* counts = nullptr;
};

/// Returns InvalidArgument if a caller asks for capacities for this many times what a cloud has.
llvm::Error check_capacity_factor(double factor);

class PlanExecution {
 public:
  virtual ~PlanExecution() = default;
  static llvm::Expected<std::unique_ptr<PlanExecution>> create(std::shared_ptr<const LoadedPlan> loaded,
                                                               const ExecutionOptions& options);

  virtual const LoadedPlan& loaded() const = 0;
  virtual const ExecutionOptions& options() const = 0;
  const Plan& plan() const { return *loaded().plan; }
  bool has_capacities() const { return options().cloud.has_capacities(); }
  const std::shared_ptr<Queue>& queue() const { return options().queue; }
  /// Returns this execution if it is of a single op, and null if it is of a network.
  virtual Execution* single_op() { return nullptr; }

  /// Invalidates the prepared state. Every caller of a prepare function calls this before it checks the
  /// arguments, so that a failed prepare never leaves old maps in use. The function returns
  /// FailedPrecondition, and invalidates nothing, if the plan requires prepare_maps() instead of prepare(),
  /// or the reverse, or if nothing is to be prepared.
  virtual llvm::Error invalidate(bool for_maps) = 0;
  virtual llvm::Error check_takes(bool maps) const = 0;
  virtual llvm::Error prepare(const i32* coordinates, i64 count, void* stream) = 0;
  /// Prepares a cloud whose sizes only the device knows (capacity mode). This call may be captured into a
  /// CUDA graph. `given_count` points to the number of coordinates in device memory. If it is null, there are
  /// `most` coordinates.
  virtual llvm::Error prepare_within(const i32* coordinates, const i32* given_count, i64 most,
                                     void* stream) = 0;
  virtual llvm::Error run(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs, void* stream) = 0;
  /// Runs like run(). Features, the output and the second output of an op (Program::winners) are arrays of
  /// rank 2, and parameters are arrays of their own rank.
  virtual llvm::Error run_arrays(llvm::ArrayRef<GivenArray> inputs, llvm::ArrayRef<GivenArray> outputs,
                                 void* stream) = 0;
  /// Returns FailedPrecondition if the number of rows of an output is not known yet.
  virtual llvm::Error check_output(std::size_t output) const = 0;
  virtual i64 output_rows(std::size_t output = 0) const = 0;
  virtual llvm::Error output_coordinates(std::size_t output, i32* coordinates, void* stream) = 0;
  /// Returns the number of the first layer that wrote an infinite or NaN value since the last prepare, or -1
  /// if there is none. The function waits for the device.
  virtual llvm::Expected<i32> find_overflow(void* stream) = 0;
  /// Copies the words of PointCount (point_kernels.h) of the last run to the host and waits for them. Returns
  /// FailedPrecondition if the network does not take points, or has not run.
  virtual llvm::Error read_points(llvm::MutableArrayRef<i32> counts, void* stream) = 0;

  /// Sets the trace that receives a span for each layer of a run. A null pointer turns tracing off.
  virtual void set_trace(Trace* trace) = 0;
  /// Writes one capacity for each level (coordinate set), which is `factor` times the number of its rows in
  /// the last cloud, rounded up.
  virtual llvm::Error suggest_capacities(double factor, llvm::MutableArrayRef<i64> rows) const = 0;
  /// Counts the superblocks (voxel_index.h) of each level of the last cloud, and sets the counts of levels
  /// that are in no index to -1. The function waits for the device.
  virtual llvm::Error count_superblocks(llvm::MutableArrayRef<i64> counts, void* stream) = 0;
  /// Enqueues a copy of the state of a cloud whose sizes only the device knows (capacity mode) to memory of
  /// the caller on the device. The call may be captured into a CUDA graph. `counts` may be empty.
  virtual llvm::Error copy_cloud(u32* status, llvm::MutableArrayRef<i32> counts, void* stream) = 0;
  /// Copies the state of a cloud whose sizes only the device knows (capacity mode) to the host and waits for
  /// it.
  virtual llvm::Error read_cloud(void* stream, u32& status, llvm::MutableArrayRef<i32> counts) = 0;
  virtual CloudWords cloud_state() const = 0;

  /// Describes the rows of one level (coordinate set) in the prepared state. In exact mode, all numbers are 0
  /// before the first prepare. In capacity mode, they are the capacities from the beginning.
  struct Level {
    // Counts the rows of the coordinate set.
    i64 rows = 0;
    // Counts the rows of the caller's tensors on this level.
    i64 caller_rows = 0;
    // Points to the number of rows of the set, which is in device memory.
    i32* count = nullptr;
    // Points to the number of the caller's rows, which is in device memory. If it is null, there are
    // `caller_rows` rows.
    const i32* caller_count = nullptr;
    // Points to an array whose element i is the caller's row for row i of the set. It is null if the caller's
    // order is the order of the set.
    const i32* source_row = nullptr;
    const i32* row_of = nullptr;
    AxisArray tensor_stride{};
    // Points to an array whose element i is the caller's row for row i of the set, if the views of kernel
    // maps contain the caller's row numbers. Tensors then need no permutation, and source_row is null.
    const i32* caller_row = nullptr;
  };
  virtual const Level& level(i32 level) const = 0;
  /// Returns true if the rows of the level are known.
  virtual bool knows_level(i32 level) const = 0;
  /// Returns the method that makes the maps of a network, or nothing if the caller gives the maps.
  virtual std::optional<MapMethod> find_map_method() const = 0;
  /// Returns the number of pairs of a layer's map. It is 0 before prepare, and in capacity mode, in which
  /// only the device knows it. The function waits if the caller gave the map and its pair counts have not
  /// been read back yet.
  virtual llvm::Expected<i64> layer_pairs(i32 layer) = 0;
  /// Returns the sum of the times of the last profiled prepare and run, and keeps the times of the layers for
  /// layer_times(). The function waits for the device.
  virtual llvm::Expected<StageTimes> query_times() = 0;
  /// Returns the times of a layer that the last query_times() found. They are zeros if the layer then ran
  /// another candidate than the one that selected() returns now.
  virtual StageTimes layer_times(i32 layer) const = 0;
  /// Returns the candidate that computes a layer, or null before prepare.
  virtual const Candidate* selected(i32 layer) const = 0;
  /// Returns figures about a layer's op, such as the number of padding rows. They are zeros before prepare.
  virtual OpReport layer_report(i32 layer) const = 0;

  /// Makes the execution use other memory of the caller. Waits for `stream`, so that the caller may free the
  /// old memory. Nothing is prepared afterwards. A call that fails before or during the wait changes nothing.
  /// After a later failure the execution has no workspace.
  virtual llvm::Error set_workspace(void* workspace, i64 bytes, void* stream) = 0;
  /// Returns the caller's workspace, or no rows if the memory is the execution's own.
  virtual MemoryRows callers_workspace() const = 0;
  virtual llvm::Error check_has_memory() const = 0;
  /// Frees the memory that captured runs use. The caller must not replay graphs that contain runs of this
  /// execution afterwards.
  virtual void release_captures() = 0;
  virtual i64 workspace_bytes() const = 0;
  /// Returns how many bytes the memory must have at least. If the options give capacities, this number
  /// suffices for every cloud. Otherwise it is what the last prepare needed, as far as that prepare went.
  virtual i64 needed_bytes() const = 0;

  /// Say whether the device can capture a run or a prepare of this execution into a CUDA graph.
  virtual bool can_capture_run() const = 0;
  virtual bool can_capture_prepare() const = 0;
  virtual void set_profiling(bool on) = 0;
  /// Counts what the execution did since reset_counters().
  virtual EngineCounters counters() const = 0;
  virtual void reset_counters() = 0;
};

}  // namespace minuet
