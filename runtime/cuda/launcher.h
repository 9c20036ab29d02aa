// Enqueues the launches, copies and fills of one engine on the caller's stream, and counts and times them.
//
// Side streams fork from the caller's stream and join it again, so that the caller sees one stream, even
// under graph capture. Only one thread at a time may use a launcher.
#pragma once

#include <cuda.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/launch_grid.h"
#include "runtime/cuda/profiler.h"
#include "runtime/engine/nvtx.h"

namespace minuet {

/// Counts the streams that one call may use, including the caller's stream.
constexpr i32 kStreams = kMostGemmStreams;
/// Is the number of the stream on which branches run (Engine::begin_branch()). Stream 0 is the caller's.
constexpr i32 kBranchStream = 1;

/// Owns the streams that run a part of a call's work beside the caller's stream, and the events that fork to
/// them and join them. An object belongs to one launcher, or to all launchers whose calls go through one
/// queue.
class SideStreams final : public EngineShare {
 public:
  static llvm::Expected<std::shared_ptr<SideStreams>> create(std::shared_ptr<CudaDevice> device);
  ~SideStreams() override;
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

  CUstream stream(i32 index) const { return streams_[index]; }
  /// Returns an event. Event 0 is for forks, and event i is for the join of stream i.
  CUevent event(i32 index) const { return events_[index]; }

 private:
  explicit SideStreams(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}

  std::shared_ptr<CudaDevice> device_;
  /// Element 0 stays null; it stands for the caller's stream.
  std::array<CUstream, kStreams> streams_ = {};
  std::array<CUevent, kStreams> events_ = {};
};

class Launcher {
 public:
  /// `side` holds the side streams of a queue, whose stream must live as long as the launcher. If `side` is
  /// null, the launcher creates side streams for itself.
  static llvm::Expected<std::unique_ptr<Launcher>> create(std::shared_ptr<CudaDevice> device,
                                                          std::shared_ptr<SideStreams> side);
  /// Waits for the enqueued work and frees pinned memory. It never fails.
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  CudaDevice& device() const { return *device_; }
  const std::shared_ptr<CudaDevice>& shared_device() const { return device_; }
  const Driver& driver() const { return driver_; }
  i32 multiprocessors() const { return device_->multiprocessors(); }
  EngineCounters& counters() { return counters_; }
  Profiler& profiler() { return profiler_; }

  /// Starts a call on `stream`. Returns InvalidArgument if the stream belongs to a context other than the
  /// device's primary one. Streams of green contexts, which are parts of the primary context, are accepted.
  /// Until end(), the device's context is current on this thread, and captures of other threads do not
  /// restrict this thread, because a call does not affect their graphs. A caller may call begin() again
  /// before end().
  llvm::Error begin(CUstream stream);
  /// Ends a call. The destructor waits for the work that was enqueued up to here, unless it was captured.
  llvm::Error end();
  /// Makes the caller's stream wait for the work of the last call that was not captured. It does nothing
  /// during a capture, in which a stream must not wait for other work.
  llvm::Error follow_last_call() const;
  /// Waits for the work of the last call that was not captured.
  llvm::Error wait_for_calls() const;
  bool was_captured() const { return was_captured_; }
  CUstream stream(i32 index = 0) const { return index == 0 ? stream_ : side_->stream(index); }
  /// Returns true if the work of this call goes to a branch now.
  bool on_branch() const { return work_stream_ != stream_; }
  /// Says that the kernel launched last writes nothing that FusedParams::reads_early names: no views of
  /// kernel maps, no orders or counts of their rows, and no weights. The next kernel may then read these
  /// before that one has ended (kernels_templates/core/early_loads.h). On a branch this does nothing.
  void allow_early_reads() {
    if (!on_branch()) allows_early_reads_ = true;
  }
  /// Returns true if the next kernel is on the caller's stream and right behind one for which
  /// allow_early_reads() was called, in the same call, with no other work on that stream and no join of
  /// streams in between. Work of a branch does not count.
  bool may_read_early() const { return allows_early_reads_ && !on_branch(); }
  /// Says that the kernel launched last writes no rows of features. Without a branch this does nothing.
  void allow_early_rows() { allows_early_rows_ = on_branch(); }
  /// Returns true if the next kernel is on a branch and right behind one for which allow_early_rows() was
  /// called on this branch. All rows that the branch reads were there before that kernel began.
  bool may_read_rows_early() const { return allows_early_rows_ && on_branch(); }
  /// Returns true if no kernel was launched since the last wait().
  bool is_idle() const { return idle_; }
  /// Returns the number of streams that the work of this call may use, including the caller's stream.
  i32 usable_streams() const { return usable_; }

  /// Assigns the work that follows to `stage`, until the next call of mark().
  llvm::Error mark(Stage stage) {
    if (stage == Stage::None) {
      steps_.end();
    } else {
      steps_.begin(stage_name(stage));
    }
    return profiler_.marks() ? profiler_.mark(stage, work_stream_, counters_) : llvm::Error::success();
  }

  /// Ends the NVTX range of the current stage. What the host does next belongs to no range.
  void end_step() { steps_.end(); }

  /// Launches a kernel with the threads, shared memory and cluster size that `kernel.needs` holds. `blocks`
  /// must be a multiple of the cluster size.
  template <class Params>
  llvm::Error launch(const Kernel<Params>& kernel, i64 blocks, const Params& params) {
    void* arguments[] = {const_cast<Params*>(&params)};
    return launch_raw(kernel.kernel, kernel.needs, blocks, arguments);
  }
  /// Launches a grid-stride kernel in which each thread handles one item at a time.
  template <class Params>
  llvm::Error launch_stride(const Kernel<Params>& kernel, i64 items, const Params& params) {
    const i64 blocks = stride_grid(items, kernel.needs.threads, multiprocessors());
    return launch(kernel, whole_clusters(blocks, kernel.needs.cluster), params);
  }
  llvm::Error fill(void* target, u32 word, i64 words);
  llvm::Error copy(void* target, const void* source, i64 bytes);
  llvm::Error read_back(void* host, const void* source, i64 bytes);
  llvm::Error send(void* target, const void* host, i64 bytes);
  llvm::Error wait();
  llvm::Expected<void*> allocate_pinned(i64 bytes);

  /// These two functions protect pinned memory that the host writes repeatedly. Call record_copy() after
  /// enqueuing a copy from the memory, and wait_for_copy() before writing to it again.
  llvm::Error record_copy();
  llvm::Error wait_for_copy();

  /// Makes side streams 1 ... used - 1 wait for the work that is already on the caller's stream.
  llvm::Error fork(i32 used);
  /// Makes the caller's stream wait for the work on side streams 1 ... used - 1.
  llvm::Error join(i32 used);

  /// These functions implement those of Engine. A branch is on side stream 1. If the call may not use side
  /// streams, the branch's work stays on the caller's stream.
  llvm::Error begin_branch();
  void resume_branch() {
    if (has_branch_) work_stream_ = stream(kBranchStream);
    allows_early_rows_ = false;
  }
  void end_branch() { work_stream_ = stream_; }
  llvm::Error join_branch();

 private:
  Launcher(std::shared_ptr<CudaDevice> device, std::shared_ptr<SideStreams> side, bool in_queue)
      : device_(std::move(device)),
        driver_(device_->driver()),
        side_(std::move(side)),
        in_queue_(in_queue),
        profiler_(driver_) {}
  void wait_for_all() const;
  llvm::Error accept(CUstream stream);
  llvm::Error accept_green(CUstream stream);
  llvm::Error query_capture();
  void forget_early_reads() { (on_branch() ? allows_early_rows_ : allows_early_reads_) = false; }
  llvm::Error launch_raw(CUkernel kernel, const KernelNeeds& needs, i64 blocks, void** arguments);

  std::shared_ptr<CudaDevice> device_;
  const Driver& driver_;
  const std::shared_ptr<SideStreams> side_;
  const bool in_queue_;
  i32 usable_ = 1;
  CUstream stream_ = nullptr;       // Holds the caller's stream in the current or last call.
  CUstream work_stream_ = nullptr;  // Gets the kernels, fills and copies: the caller's stream or a branch.
  bool has_branch_ = false;         // It is true if the caller's stream has not yet waited for a branch.
  CUevent copied_ = nullptr;
  bool copying_ = false;
  /// Marks the end of the last call's work. A launcher that belongs to a queue does not record this event, to
  /// save one event per call.
  CUevent ended_ = nullptr;
  bool enqueued_ = false;
  /// Says whether the last work on the caller's stream was a kernel for which allow_early_reads() was called.
  bool allows_early_reads_ = false;
  /// Says whether the last work of the current branch was a kernel for which allow_early_rows() was called.
  bool allows_early_rows_ = false;
  bool idle_ = true;                     // It is true if no kernel was launched since the last wait().
  bool was_captured_ = false;            // It is true if the last call was captured.
  std::optional<ContextScope> current_;  // This member and capture_scope_ are set from begin() to end().
  std::optional<CaptureScope> capture_scope_;
  std::vector<void*> pinned_;
  EngineCounters counters_;
  Profiler profiler_;
  NvtxSteps steps_;
};

}  // namespace minuet
