// The launches, copies and fills of one engine on the caller's stream, counted and timed.
//
// Side streams fork from the caller's stream and join it again, so that the caller sees one stream, under
// graph capture too. Used by one thread at a time.
#pragma once

#include <cuda.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/launch_grid.h"
#include "runtime/cuda/profiler.h"
#include "runtime/engine/nvtx.h"

namespace minuet {

/// Includes the caller's stream.
constexpr i32 kStreams = kMostGemmStreams;

/// Streams over which a call's work spreads beside the caller's stream, with the events that fork to them and
/// join them. They belong to one launcher, or to all launchers whose calls come through one queue.
class SideStreams final : public EngineShare {
 public:
  static llvm::Expected<std::shared_ptr<SideStreams>> create(std::shared_ptr<CudaDevice> device);
  ~SideStreams() override;
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

  CUstream stream(i32 index) const { return streams_[index]; }
  /// Event 0 forks; the others join.
  CUevent event(i32 index) const { return events_[index]; }

 private:
  explicit SideStreams(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}

  std::shared_ptr<CudaDevice> device_;
  std::array<CUstream, kStreams> streams_ = {};  // [0] stays null
  std::array<CUevent, kStreams> events_ = {};
};

class Launcher {
 public:
  /// `side` belongs to a queue, whose stream lives as long as the launcher; or null.
  static llvm::Expected<std::unique_ptr<Launcher>> create(std::shared_ptr<CudaDevice> device,
                                                          std::shared_ptr<SideStreams> side);
  /// Waits for the enqueued work and frees pinned memory. Never fails.
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
  /// device's primary one; streams of green contexts, which are parts of the primary context, are accepted.
  /// Until end(), the device's context is current on this thread, and captures of other threads do not
  /// restrict it, because a call does not affect their graphs. May be called again before end().
  llvm::Error begin(CUstream stream);
  /// Ends a call. The destructor waits for what was enqueued up to here, unless it was captured.
  llvm::Error end();
  bool was_captured() const { return was_captured_; }
  CUstream stream(i32 index = 0) const { return index == 0 ? stream_ : side_->stream(index); }
  /// Returns true if all launched kernels have been waited for.
  bool is_idle() const { return idle_; }
  /// Returns how many streams, the caller's included, the work of this call may use.
  i32 usable_streams() const { return usable_; }

  /// Assigns the following work to `stage`.
  llvm::Error mark(Stage stage) {
    if (stage == Stage::None) {
      steps_.end();
    } else {
      steps_.begin(stage_name(stage));
    }
    return profiler_.marks() ? profiler_.mark(stage, stream_, counters_) : llvm::Error::success();
  }

  /// Ends the profiler range (NVTX) of the current step; what the host does next belongs to no step.
  void end_step() { steps_.end(); }

  /// Launches as the kernel's row in kernels.inc says. `blocks` must be whole clusters.
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
  llvm::Error read_back(void* host, const void* source, i64 bytes);
  llvm::Error send(void* target, const void* host, i64 bytes);
  llvm::Error wait();
  llvm::Expected<void*> allocate_pinned(i64 bytes);

  /// Protect pinned memory that the host rewrites: call record_copy() after its copy is enqueued, and
  /// wait_for_copy() before it is written again.
  llvm::Error record_copy();
  llvm::Error wait_for_copy();

  /// Makes side streams 1 ... used - 1 wait for what the caller's stream holds now.
  llvm::Error fork(i32 used);
  /// Makes the caller's stream wait for the side streams.
  llvm::Error join(i32 used);

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
  llvm::Error launch_raw(CUkernel kernel, const KernelNeeds& needs, i64 blocks, void** arguments);

  std::shared_ptr<CudaDevice> device_;
  const Driver& driver_;
  const std::shared_ptr<SideStreams> side_;
  const bool in_queue_;
  i32 usable_ = 1;
  CUstream stream_ = nullptr;  // the caller's
  CUevent copied_ = nullptr;
  bool copying_ = false;
  CUevent ended_ = nullptr;  // the last call's work; not recorded in a queue, to save an event per call
  bool enqueued_ = false;
  bool idle_ = true;                     // true if no kernel was launched since the last wait()
  bool was_captured_ = false;            // true if the last call was captured
  std::optional<ContextScope> current_;  // set until end(), as is capture_scope_
  std::optional<CaptureScope> capture_scope_;
  std::vector<void*> pinned_;
  EngineCounters counters_;
  Profiler profiler_;
  NvtxSteps steps_;
};

}  // namespace minuet
