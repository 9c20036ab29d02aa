// What a device offers to an execution: the Map step (map_operations.h), and the ops of a program.
//
// There are two engines, runtime/cuda and runtime/cpu; everything above (plans, networks,
// executions, coordinate sets, kernel maps) is the same code for both. An engine belongs to one
// execution, or to one of those that build sets and maps, and to one thread at a time. Operations only
// enqueue on the stream given to begin(); `wait` is the one that waits. Pointers are device pointers unless a
// name says host.
#pragma once

#include <memory>
#include <vector>

#include "codegen/choose/candidates.h"
#include "codegen/choose/choice.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "runtime/engine/map_operations.h"

namespace minuet {

/// output row i = input row index[i].
struct PermuteRequest {
  i32 permute = 0;  // number given by add_permute_rows
  const void* input = nullptr;
  i64 input_ld = 0;
  const i32* index = nullptr;
  i64 rows = 0;
  void* output = nullptr;
  i64 output_ld = 0;
  const i32* count = nullptr;  // device: rows from it on become zeros; or null
};

/// An op that another op's kernel computes too: where its output goes.
struct CoveredOp {
  void* output = nullptr;
  i64 output_ld = 0;
  u32* overflow = nullptr;
};

/// One op on one cloud, as far as all families have it in common. Each family adds what its kernels read of
/// the map (runtime/engine/ops).
struct OpRequest {
  i32 op = 0;                    // number given by add_op
  const MapView* map = nullptr;  // null where the op reads none
  bool transposed = false;
  const void* input = nullptr;  // first column of the first row
  i64 input_rows = 0, input_ld = 0;
  void* output = nullptr;
  i64 output_rows = 0, output_ld = 0;
  const i32* output_count = nullptr;  // device: the rows that the cloud has, output_rows at most
  bool pads_output = false;           // rows past the count become zeros; else anything
  const void* residual = nullptr;
  i64 residual_ld = 0;
  // Of an op that makes the coordinate set of its output: the set of its input, and the set to be made, with
  // room for as many keys. The op writes the keys in ascending order, and the count, in each run.
  const Coords *input_set = nullptr, *made_set = nullptr;
  llvm::SmallVector<CoveredOp, kMostCovered> covered;  // the ops behind it that the candidate covers
  u32* overflow = nullptr;  // overflow_mark once a number of the output is infinite or NaN
  u32 overflow_mark = 1;    // not 0
  void* scratch = nullptr;  // Engine::scratch_bytes()
};

/// The request of an op that reads one view of its map: of the output's side; none where each row is its own
/// neighbour.
struct NeighbourRequest : OpRequest {
  NeighbourView view;
};

/// Internal where the view has no table of rows, and the kernel more than the offset by which a row is its
/// own neighbour.
inline llvm::Error check_rows(const NeighbourRequest& request, i64 volume) {
  if (request.view.rows != nullptr || volume == 1) return llvm::Error::success();
  return make_error(StatusCode::Internal, "the view of {0} offsets has no rows", volume);
}

/// What an execution did since reset_counters.
struct EngineCounters {
  i64 kernels = 0, copies = 0, fills = 0, matmuls = 0;
  i64 host_syncs = 0;
  i64 allocations = 0;   // device, pinned or event: none when warm
  i64 gemm_lookups = 0;  // look-ups of GEMM algorithms: none when warm
};

/// Time per stage, milliseconds.
struct StageTimes {
  double sort = 0, map = 0, gather = 0, gemm = 0, scatter = 0, other = 0;

  StageTimes& operator+=(const StageTimes& more) {
    sort += more.sort, map += more.map, gather += more.gather;
    gemm += more.gemm, scatter += more.scatter, other += more.other;
    return *this;
  }
};

/// What a call's times belong to: those of the last prepare and of the last run are kept.
enum class Timed : i32 { Nothing, Prepare, MoreOfPrepare, Run };

/// Of the last prepare and the last run.
struct PassTimes {
  StageTimes all;
  std::vector<StageTimes> ops;  // by their numbers; none where none ran
};

/// What engines on one stream may share, for their calls come one after the other (Device::create_share).
class EngineShare {
 public:
  virtual ~EngineShare() = default;
};

constexpr i64 kMostReadbackWords = 16;

/// Words of the device's that are on their way to the host, kMostReadbackWords at most. Any thread may wait,
/// and again, which waits no more.
class DeferredReadback {
 public:
  virtual ~DeferredReadback() = default;
  /// They live as long as this does.
  virtual llvm::Expected<llvm::ArrayRef<i32>> wait() = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // ---- made once, before the first begin() -----------------------------------------------------
  /// Adds an op, to run as chosen, and returns its number; they count up. FailedPrecondition where its
  /// kernels are not loaded.
  /// `parameters`: on the device, in the order of parameter_images() (runtime/weights/weight_image.h).
  virtual llvm::Expected<i32> add_op(const OpChoice& choice, llvm::ArrayRef<const void*> parameters) = 0;
  virtual llvm::Expected<i32> add_permute_rows(const PermuteRowsSpec& spec) = 0;
  /// Device memory that the engine wants for itself once all ops are added (256-byte aligned).
  virtual i64 workspace_bytes() const = 0;
  virtual llvm::Error set_workspace(void* workspace) = 0;
  /// Of an OpRequest's scratch, which is anybody's between two calls.
  virtual i64 scratch_bytes() const = 0;

  // ---- one call --------------------------------------------------------------------------------
  /// `stream`: the caller's CUstream; ignored by the CPU.
  virtual llvm::Error begin(void* stream) = 0;
  /// Ends what begin() began, after a failure too: the last stage's time ends here, and the destructor waits
  /// for what was enqueued until here. The CPU has nothing to do.
  virtual llvm::Error end() { return llvm::Error::success(); }
  /// Whether what was enqueued until end() went into a graph.
  virtual bool was_captured() const { return false; }
  virtual llvm::Error fill_words(void* target, u32 word, i64 words) = 0;
  /// `host` is memory from allocate_pinned and stays untouched until the next wait().
  virtual llvm::Error read_back(void* host, const void* source, i64 bytes) = 0;
  /// For whoever waits for them, later and anywhere; not in a capture.
  virtual llvm::Expected<std::shared_ptr<DeferredReadback>> start_readback(const i32* source, i64 words) = 0;
  /// `host` is memory from allocate_pinned and stays untouched until the next wait_for_sends().
  virtual llvm::Error send(void* target, const void* host, i64 bytes) = 0;
  /// Waits where what was sent is still under way.
  virtual llvm::Error wait_for_sends() = 0;
  virtual llvm::Error wait() = 0;
  virtual llvm::Expected<void*> allocate_pinned(i64 bytes) = 0;  // owned by the engine

  virtual MapOperations& maps() = 0;
  virtual llvm::Error permute_rows(const PermuteRequest& request) = 0;
  /// What one op needs for one cloud, before its first run there. It writes what it sends: after
  /// wait_for_sends(), or a wait, in the same call.
  virtual llvm::Error prepare_op(const OpRequest& request) = 0;
  /// Once all of a prepare's are.
  virtual llvm::Error send_prepared() { return llvm::Error::success(); }
  virtual llvm::Error run_op(const OpRequest& request) = 0;

  // ---- what happened ---------------------------------------------------------------------------
  virtual const EngineCounters& counters() const = 0;
  virtual void reset_counters() = 0;
  /// Timed passes record events between the stages; off by default.
  virtual void set_profiling(bool on) = 0;
  /// Before begin(): what the call's times take the place of, or go on with. A run's, where nobody says.
  virtual void time_as(Timed call) = 0;
  virtual llvm::Expected<PassTimes> pass_times() = 0;  // waits
};

}  // namespace minuet
