// The interface that a device offers to an execution: the Map step (map_operations.h) and the ops of a
// program.
//
// There are two engines, runtime/cuda and runtime/cpu. All code above them (plans, networks, executions,
// coordinate sets, kernel maps) is shared. An engine belongs to one execution, or to one object that builds
// coordinate sets and kernel maps, and only one thread may use it at a time. Operations enqueue work on the
// stream given to begin() and return; only `wait` blocks until that work has finished. Pointers are device
// pointers unless a name says host.
#pragma once

#include <memory>
#include <vector>

#include "codegen/choose/candidates.h"
#include "codegen/choose/choice.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "runtime/engine/map_operations.h"

namespace minuet {

/// Copies rows: output row i = input row index[i].
struct PermuteRequest {
  i32 permute = 0;  // number that add_permute_rows returned
  const void* input = nullptr;
  i64 input_ld = 0;
  const i32* index = nullptr;
  i64 rows = 0;
  void* output = nullptr;
  i64 output_ld = 0;
  const i32* count = nullptr;  // device; output rows past this count are set to zero; null: copy all
};

/// An op whose output the kernel of an earlier op computes too (Candidate::covers).
struct CoveredOp {
  void* output = nullptr;
  i64 output_ld = 0;
  u32* overflow = nullptr;
};

/// The part of a request for one op on one cloud that all families share. Each family derives a request that
/// adds the views and buffers its kernels read (runtime/engine/ops).
struct OpRequest {
  i32 op = 0;                    // number that add_op returned
  const MapView* map = nullptr;  // null if the op reads no kernel map
  bool transposed = false;
  const void* input = nullptr;  // first column of the first row
  i64 input_rows = 0, input_ld = 0;
  void* output = nullptr;
  i64 output_rows = 0, output_ld = 0;
  const i32* output_count = nullptr;  // device: number of rows that the cloud has, at most output_rows
  bool pads_output = false;  // true: rows past the count are set to zero; false: their contents are undefined
  const void* residual = nullptr;
  i64 residual_ld = 0;
  // Used only by an op that makes the coordinate set of its output: the input's set, and the set to make,
  // which has capacity for as many keys. Every run writes the keys in ascending order, and their count.
  const Coords *input_set = nullptr, *made_set = nullptr;
  llvm::SmallVector<CoveredOp, kMostCovered> covered;  // the following ops that the candidate computes too
  u32* overflow = nullptr;  // set to overflow_mark if an output value is infinite or NaN
  u32 overflow_mark = 1;    // must not be 0
  void* scratch = nullptr;  // Engine::scratch_bytes() bytes
};

/// The request of an op that reads one view of its map, indexed by output rows. The view is empty if each
/// output row reads only the input row of the same number.
struct NeighbourRequest : OpRequest {
  NeighbourView view;
};

/// Returns Internal if the view has no table of rows although the kernel has more than the one offset at
/// which a row is its own neighbour.
inline llvm::Error check_rows(const NeighbourRequest& request, i64 volume) {
  if (request.view.rows != nullptr || volume == 1) return llvm::Error::success();
  return make_error(StatusCode::Internal, "the view of a kernel with {0} offsets has no table of rows",
                    volume);
}

/// Counts of what an engine did since reset_counters().
struct EngineCounters {
  i64 kernels = 0, copies = 0, fills = 0, matmuls = 0;
  i64 host_syncs = 0;
  i64 allocations = 0;   // allocations of device memory, pinned memory or events; 0 once warm
  i64 gemm_lookups = 0;  // look-ups of GEMM algorithms; 0 once warm
};

/// Time of each stage, in milliseconds.
struct StageTimes {
  double sort = 0, map = 0, gather = 0, gemm = 0, scatter = 0, other = 0;

  StageTimes& operator+=(const StageTimes& more) {
    sort += more.sort, map += more.map, gather += more.gather;
    gemm += more.gemm, scatter += more.scatter, other += more.other;
    return *this;
  }
};

/// Says which times a call replaces or extends. The engine keeps the times of the last prepare and of the
/// last run.
enum class Timed : i32 { Nothing, Prepare, MoreOfPrepare, Run };

/// Times of the last prepare or of the last run.
struct PassTimes {
  StageTimes all;
  std::vector<StageTimes> ops;  // by op number; empty if no op ran
};

/// The message of Engine::pass_times() while profiling is off.
inline constexpr const char* kProfilingOff =
    "profiling is off, so no stage was timed: turn it on (minuet_execution_set_profiling) before the calls "
    "to "
    "time";

/// Resources that all engines on one stream may share, because their calls run one after the other
/// (Device::create_share).
class EngineShare {
 public:
  virtual ~EngineShare() = default;
};

constexpr i64 kMostReadbackWords = 16;

/// A copy of at most kMostReadbackWords device words to the host that may still be in progress. Any thread
/// may call wait(), also repeatedly; later calls return at once.
class DeferredReadback {
 public:
  virtual ~DeferredReadback() = default;
  /// Returns words that stay valid as long as this object.
  virtual llvm::Expected<llvm::ArrayRef<i32>> wait() = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // ---- set-up, before the first begin() --------------------------------------------------------
  /// Adds an op that runs as `choice` says, and returns its number; numbers count up from 0. Returns
  /// FailedPrecondition if the op's kernels are not loaded. `parameters` are on the device, in the order of
  /// parameter_images() (runtime/weights/weight_image.h).
  virtual llvm::Expected<i32> add_op(const OpChoice& choice, llvm::ArrayRef<const void*> parameters) = 0;
  virtual llvm::Expected<i32> add_permute_rows(const PermuteRowsSpec& spec) = 0;
  /// Returns how many bytes of device memory the engine needs for itself, aligned to 256 bytes. Valid once
  /// all ops are added.
  virtual i64 workspace_bytes() const = 0;
  virtual llvm::Error set_workspace(void* workspace) = 0;
  /// Returns the size of OpRequest::scratch. Its contents need not survive between two calls.
  virtual i64 scratch_bytes() const = 0;

  // ---- one call --------------------------------------------------------------------------------
  /// `stream`: the caller's CUstream; ignored by the CPU.
  virtual llvm::Error begin(void* stream) = 0;
  /// Ends a call. It must run after a failure too: it ends the time of the last stage, and the destructor
  /// waits for the work enqueued up to here. Does nothing on the CPU.
  virtual llvm::Error end() { return llvm::Error::success(); }
  /// Returns true if the work of the last call was captured into a graph.
  virtual bool was_captured() const { return false; }
  virtual llvm::Error fill_words(void* target, u32 word, i64 words) = 0;
  /// `host` is memory from allocate_pinned and stays untouched until the next wait().
  virtual llvm::Error read_back(void* host, const void* source, i64 bytes) = 0;
  /// Starts a copy to the host that any thread may wait for later. Must not be called during a capture.
  virtual llvm::Expected<std::shared_ptr<DeferredReadback>> start_readback(const i32* source, i64 words) = 0;
  /// `host` is memory from allocate_pinned and stays untouched until the next wait_for_sends().
  virtual llvm::Error send(void* target, const void* host, i64 bytes) = 0;
  /// Waits until the host may overwrite the memory given to send().
  virtual llvm::Error wait_for_sends() = 0;
  virtual llvm::Error wait() = 0;
  virtual llvm::Expected<void*> allocate_pinned(i64 bytes) = 0;  // owned by the engine

  virtual MapOperations& maps() = 0;
  virtual llvm::Error permute_rows(const PermuteRequest& request) = 0;
  /// Prepares one op for one cloud; required before the op's first run on that cloud. It writes host memory
  /// that is sent to the device, so the same call must have called wait_for_sends() or wait() before.
  virtual llvm::Error prepare_op(const OpRequest& request) = 0;
  /// Sends to the device what prepare_op() wrote. Call it once, after the last prepare_op() of a prepare.
  virtual llvm::Error send_prepared() { return llvm::Error::success(); }
  virtual llvm::Error run_op(const OpRequest& request) = 0;

  // ---- statistics ------------------------------------------------------------------------------
  virtual const EngineCounters& counters() const = 0;
  virtual void reset_counters() = 0;
  /// Turns timing on or off; it is off by default. A timed pass records events between the stages.
  virtual void set_profiling(bool on) = 0;
  /// Sets which times the next call replaces or extends. Call it before begin(). The default is Timed::Run.
  virtual void time_as(Timed call) = 0;
  virtual llvm::Expected<PassTimes> pass_times() = 0;  // waits for the timed work
};

}  // namespace minuet
