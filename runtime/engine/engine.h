// Declares the interface that a device offers to an execution. It consists of the Map step
// (map_operations.h), the ops of a program, the storing of parameters (parameter_operations.h), the gradients
// of parameters (gradient_operations.h), batch norms in training (batch_norm_operations.h), the work on
// points (point_operations.h), and levels of candidates that a rule keeps (select_operations.h).
//
// There are two engines, runtime/cuda and runtime/cpu. All code above them (plans, networks, executions,
// coordinate sets, kernel maps) is shared. An engine belongs to one execution, or to one object that builds
// coordinate sets and kernel maps, and only one thread may use it at a time. Operations enqueue work on the
// stream given to begin() and return; wait() blocks until that work has finished. Pointers are device
// pointers unless a name or a comment says that they point to host memory.
#pragma once

#include <memory>
#include <vector>

#include "codegen/choose/candidates.h"
#include "codegen/choose/choice.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "runtime/engine/batch_norm_operations.h"
#include "runtime/engine/gradient_operations.h"
#include "runtime/engine/map_operations.h"
#include "runtime/engine/parameter_operations.h"
#include "runtime/engine/point_operations.h"
#include "runtime/engine/select_operations.h"

namespace minuet {

/// Requests a copy of rows in which output row i is input row index[i], or row i if there is no index. A
/// negative index stands for a row of padding.
struct PermuteRequest {
  i32 permute = 0;  // Holds the number that add_permute_rows() returned.
  const void* input = nullptr;
  i64 input_ld = 0;
  const i32* index = nullptr;
  i64 rows = 0;
  void* output = nullptr;
  i64 output_ld = 0;
  /// Points to the number of output rows to copy. Null means that all `rows` rows are copied.
  const i32* count = nullptr;
  /// Fills the words of the other output rows. It must be 0 or ~0.
  u32 padding = 0;
};

/// Describes an op whose output the kernel of an earlier op computes too (Candidate::covers).
struct CoveredOp {
  void* output = nullptr;
  i64 output_ld = 0;
  u32* overflow = nullptr;
};

/// Points to a further input of an op, which has the rows of the output.
struct Operand {
  const void* data = nullptr;
  i64 ld = 0;
};

/// Holds the data that the requests of all families of ops (OpFamily) have in common. A request asks an
/// engine to run one op on one cloud. A family may derive its own request type, which adds the views and
/// buffers that its kernels read (runtime/engine/ops).
struct OpRequest {
  i32 op = 0;                    // Holds the number that add_op() returned.
  const MapView* map = nullptr;  // Null means that the op reads no kernel map.
  /// Points to the op's parameters on the device, in the order of parameter_images()
  /// (runtime/weights/weight_image.h). prepare_op() and run_op() must get the same pointers.
  llvm::ArrayRef<const void*> parameters;
  /// Says whether the numbers at `parameters` may change between prepare_op() and run_op(). run_op() must
  /// then not use a copy of them that prepare_op() made.
  bool parameters_change = false;
  bool transposed = false;
  const void* input = nullptr;  // Points to the first column that the op reads, in the first row.
  i64 input_rows = 0, input_ld = 0;
  /// Points to the number of input rows of the cloud, which is in device memory and at most input_rows.
  const i32* input_count = nullptr;
  void* output = nullptr;
  i64 output_rows = 0, output_ld = 0;
  /// Points to the number of output rows of the cloud, which is in device memory and at most output_rows.
  const i32* output_count = nullptr;
  /// Says whether the output rows from *output_count on are set to zero. Otherwise their contents are
  /// undefined.
  bool pads_output = false;
  const void* residual = nullptr;
  i64 residual_ld = 0;
  llvm::SmallVector<Operand, kMostOperands> operands;  // Has OperandShape::operands elements.
  /// Points to the op's second output (OperandShape::has_winners), which holds the number of an input row for
  /// each element of the output. Null means that the op has none.
  i32* winners = nullptr;
  i64 winners_ld = 0;
  /// Points to the caller's number of each input row, which stands for the row in `winners`. Null means that
  /// the rows are in the caller's order.
  const i32* input_numbers = nullptr;
  /// Points to the caller's number of each output row, or is null if the rows are in the caller's order.
  const i32* output_numbers = nullptr;
  /// Lists the following ops of the program that the kernel of this op computes too.
  llvm::SmallVector<CoveredOp, kMostCovered> covered;
  u32* overflow = nullptr;  // The op sets this word to overflow_mark if an output value is infinite or NaN.
  u32 overflow_mark = 1;    // This mark must not be 0.
  void* scratch = nullptr;  // Points to scratch memory of Engine::scratch_bytes() bytes.
};

/// Requests an op that reads one view of its kernel map, which lists the neighbours of each output row. The
/// view is empty if each output row reads only the input row of the same number.
struct NeighbourRequest : OpRequest {
  NeighbourView view;
};

/// Returns Internal if the view has no table of rows although the kernel has several offsets. A kernel of one
/// offset may have none: within one set and with the offset 0, each row is its own neighbour.
inline llvm::Error check_rows(const NeighbourRequest& request, i64 volume) {
  if (request.view.rows != nullptr || volume == 1) return llvm::Error::success();
  return make_error(StatusCode::Internal,
                    "the kernel map has no table of neighbour rows, which a kernel with {0} offsets needs",
                    volume);
}

/// Counts what an engine did since reset_counters().
struct EngineCounters {
  i64 kernels = 0, copies = 0, fills = 0, matmuls = 0;
  i64 host_syncs = 0;
  /// Counts allocations of device memory, pinned memory and events. A call makes none if the memory that
  /// earlier calls allocated suffices.
  i64 allocations = 0;
  /// Counts look-ups of GEMM algorithms. A call does not repeat the look-ups that Device::warm_up() has made.
  i64 gemm_lookups = 0;
};

/// Holds the time of each stage in milliseconds.
struct StageTimes {
  double sort = 0, map = 0, gather = 0, gemm = 0, scatter = 0, other = 0;

  StageTimes& operator+=(const StageTimes& more) {
    sort += more.sort, map += more.map, gather += more.gather;
    gemm += more.gemm, scatter += more.scatter, other += more.other;
    return *this;
  }
};

/// Says where the measured times of a call are stored. Prepare and Run replace the times of the last prepare
/// or run, MoreOfPrepare adds to the times of the last prepare, and Nothing drops the times.
enum class Timed : i32 { Nothing, Prepare, MoreOfPrepare, Run };

/// Holds the times of the last prepare and of the last run. `all` is the sum of both. `ops` has only times of
/// the run.
struct PassTimes {
  StageTimes all;
  /// Holds the times of each op, indexed by the op's number. It is empty if no op ran.
  std::vector<StageTimes> ops;
};

/// Engine::pass_times() returns an error with this message while profiling is off.
inline constexpr const char* kProfilingOff =
    "profiling is off, so no stage was timed: turn it on (minuet_execution_set_profiling) before the calls "
    "to "
    "time";

/// Holds resources that all engines on one stream may share, because their calls run one after the other.
/// Device::create_share() creates it.
class EngineShare {
 public:
  virtual ~EngineShare() = default;
};

constexpr i64 kMostReadbackWords = 16;

/// Represents a copy of at most kMostReadbackWords device words to the host, which may still be in progress.
/// Any thread may call wait(), even repeatedly; every call after the first one returns at once.
class DeferredReadback {
 public:
  virtual ~DeferredReadback() = default;
  /// Waits for the copy and returns its words, which stay valid as long as this object.
  virtual llvm::Expected<llvm::ArrayRef<i32>> wait() = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // The following functions set the engine up. They may be called only before the first begin().

  /// Adds an op that runs as `choice` says, and returns its number. Numbers count up from 0. Returns
  /// FailedPrecondition if the op's kernels are not loaded.
  virtual llvm::Expected<i32> add_op(const OpChoice& choice) = 0;
  virtual llvm::Expected<i32> add_permute_rows(const PermuteRowsSpec& spec) = 0;
  /// Returns how many bytes of device memory the engine needs for itself, aligned to 256 bytes. The result is
  /// valid once all ops are added.
  virtual i64 workspace_bytes() const = 0;
  virtual llvm::Error set_workspace(void* workspace) = 0;
  /// Returns the size of OpRequest::scratch in bytes. Its contents need not survive between two calls.
  virtual i64 scratch_bytes() const = 0;

  // The following functions do the work of calls. A call begins with begin() and ends with end().

  /// Begins a call. `stream` is the caller's CUstream, which the CPU ignores.
  virtual llvm::Error begin(void* stream) = 0;
  /// Ends a call. It must be called after a failure too, because it ends the time of the last stage, and
  /// because the destructor waits only for work that was enqueued before end(). It does nothing on the CPU.
  virtual llvm::Error end() { return llvm::Error::success(); }
  /// Makes the work of this call wait for the work of the last call, which may be on another stream. It does
  /// nothing if this call is captured. If each call does so, the calls are ordered on the device.
  virtual llvm::Error follow_last_call() { return llvm::Error::success(); }
  /// Waits on the host for the work of the last call that was not captured. Use it between two calls.
  virtual llvm::Error wait_for_calls() { return llvm::Error::success(); }
  /// Returns true if calls may be captured into CUDA graphs.
  virtual bool can_be_captured() const { return false; }
  /// Returns true if the work of the last call was captured into a CUDA graph.
  virtual bool was_captured() const { return false; }
  /// Begins a branch: the kernels and fills that follow, up to end_branch(), wait for the work before, but
  /// may run beside the work behind end_branch(), so the two must not use memory that one of them writes.
  /// The work between the two calls may be neither copies to or from the host nor a wait, nor an op that uses
  /// streams of its own, as gather-GEMM-scatter does. An engine that runs one thing at a time, as the CPU
  /// does, runs a branch in its turn.
  virtual llvm::Error begin_branch() { return llvm::Error::success(); }
  /// Continues the branch that the last begin_branch() began: the work that follows, up to end_branch(),
  /// waits for that in front of begin_branch(), and for the branch, but not for the work since end_branch().
  virtual void resume_branch() {}
  virtual void end_branch() {}
  /// Makes the work that follows wait for all branches of this call. end() does so too.
  virtual llvm::Error join_branch() { return llvm::Error::success(); }
  virtual llvm::Error fill_words(void* target, u32 word, i64 words) = 0;
  /// Copies device memory. `target` may also be pinned host memory.
  virtual llvm::Error copy(void* target, const void* source, i64 bytes) = 0;
  /// Copies from the device to `host`, which is memory from allocate_pinned(). The caller must not use this
  /// memory until the next wait().
  virtual llvm::Error read_back(void* host, const void* source, i64 bytes) = 0;
  /// Starts a copy to the host that any thread may wait for later. It must not be called during a capture.
  virtual llvm::Expected<std::shared_ptr<DeferredReadback>> start_readback(const i32* source, i64 words) = 0;
  /// Copies from `host`, which is memory from allocate_pinned(), to the device. The caller must not change
  /// this memory until the next wait_for_sends().
  virtual llvm::Error send(void* target, const void* host, i64 bytes) = 0;
  /// Waits until the host may overwrite the memory given to send().
  virtual llvm::Error wait_for_sends() = 0;
  virtual llvm::Error wait() = 0;
  /// Allocates pinned host memory, which the engine owns.
  virtual llvm::Expected<void*> allocate_pinned(i64 bytes) = 0;

  virtual MapOperations& maps() = 0;
  virtual ParameterOperations& parameters() = 0;
  virtual PointOperations& points() = 0;
  virtual SelectOperations& selections() = 0;
  virtual GradientOperations& gradients() = 0;
  virtual BatchNormOperations& batch_norms() = 0;
  virtual llvm::Error permute_rows(const PermuteRequest& request) = 0;
  /// Prepares one op for one cloud before the op's first run on that cloud. It overwrites host memory that
  /// earlier sends may still read, so wait_for_sends() or wait() must run before it in the same call.
  virtual llvm::Error prepare_op(const OpRequest& request) = 0;
  /// Sends to the device what prepare_op() wrote. Call it once, after the last prepare_op() of a cloud.
  virtual llvm::Error send_prepared() { return llvm::Error::success(); }
  virtual llvm::Error run_op(const OpRequest& request) = 0;

  virtual const EngineCounters& counters() const = 0;
  virtual void reset_counters() = 0;
  /// Turns the timing of stages on or off; it is off by default. On a GPU, a timed call records events
  /// between the stages.
  virtual void set_profiling(bool on) = 0;
  /// Sets which times the next call replaces or extends. Call it before begin(). The default is Timed::Run.
  virtual void time_as(Timed call) = 0;
  /// Waits for the timed work and returns its times.
  virtual llvm::Expected<PassTimes> pass_times() = 0;
};

}  // namespace minuet
