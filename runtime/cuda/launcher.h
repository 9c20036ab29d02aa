// One engine's way to the GPU: launches, copies and fills on the caller's stream, counted and timed.
//
// Side streams fork from the caller's stream and join it again, so that the caller sees one stream, under
// graph capture too. One thread at a time.
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

/// The caller's included.
constexpr i32 kStreams = kMostGemmStreams;

/// Streams that a call's work spreads over beside the caller's, and the events that fork to them and join
/// them: of one launcher, or of all whose calls come through one queue.
class SideStreams final : public EngineShare {
 public:
  static llvm::Expected<std::shared_ptr<SideStreams>> create(std::shared_ptr<CudaDevice> device);
  ~SideStreams() override;
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

  CUstream stream(i32 index) const { return streams_[index]; }
  /// 0 forks, the others join.
  CUevent event(i32 index) const { return events_[index]; }

 private:
  explicit SideStreams(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}

  std::shared_ptr<CudaDevice> device_;
  std::array<CUstream, kStreams> streams_ = {};  // [0] stays null
  std::array<CUevent, kStreams> events_ = {};
};

class Launcher {
 public:
  /// `side`: a queue's, whose stream is there as long as the launcher; or null.
  static llvm::Expected<std::unique_ptr<Launcher>> create(std::shared_ptr<CudaDevice> device,
                                                          std::shared_ptr<SideStreams> side);
  /// Waits for what was enqueued; frees pinned memory. Never fails.
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  CudaDevice& device() const { return *device_; }
  const std::shared_ptr<CudaDevice>& shared_device() const { return device_; }
  const Driver& driver() const { return driver_; }
  i32 multiprocessors() const { return device_->multiprocessors(); }
  EngineCounters& counters() { return counters_; }
  Profiler& profiler() { return profiler_; }

  /// InvalidArgument where the stream belongs to another context than the device's primary one. Streams of
  /// green contexts, which are parts of the primary one, are welcome. Until end(), on this thread, the
  /// device's context is current, and a capture of another thread's forbids nothing: what a call does here is
  /// nothing to its graph. May be called again before end().
  llvm::Error begin(CUstream stream);
  /// The destructor waits for what was enqueued until here, unless it is being captured.
  llvm::Error end();
  bool was_captured() const { return was_captured_; }
  CUstream stream(i32 index = 0) const { return index == 0 ? stream_ : side_->stream(index); }
  /// All kernels that it launched have been waited for.
  bool is_idle() const { return idle_; }
  /// How many, the caller's included, the work of this call may spread over.
  i32 usable_streams() const { return usable_; }

  /// What follows belongs to `stage`.
  llvm::Error mark(Stage stage) {
    if (stage == Stage::None) {
      steps_.end();
    } else {
      steps_.begin(stage_name(stage));
    }
    return profiler_.marks() ? profiler_.mark(stage, stream_, counters_) : llvm::Error::success();
  }

  /// What the host does next belongs to no step.
  void end_step() { steps_.end(); }

  /// As the kernel's row in kernels.inc says; `blocks` are whole clusters.
  template <class Params>
  llvm::Error launch(const Kernel<Params>& kernel, i64 blocks, const Params& params) {
    void* arguments[] = {const_cast<Params*>(&params)};
    return launch_raw(kernel.kernel, kernel.needs, blocks, arguments);
  }
  /// A grid-stride kernel of one item a thread.
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

  /// For pinned memory that the host rewrites: record_copy() after its copy is enqueued, wait_for_copy()
  /// before it is written again.
  llvm::Error record_copy();
  llvm::Error wait_for_copy();

  /// Side streams 1 ... used - 1 start after what the caller's stream holds by now.
  llvm::Error fork(i32 used);
  /// The caller's stream goes on after the side streams.
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
  llvm::Error look_at_capture();
  llvm::Error launch_raw(CUkernel kernel, const KernelNeeds& needs, i64 blocks, void** arguments);

  std::shared_ptr<CudaDevice> device_;
  const Driver& driver_;
  const std::shared_ptr<SideStreams> side_;
  const bool in_queue_;
  i32 usable_ = 1;
  CUstream stream_ = nullptr;  // the caller's
  CUevent copied_ = nullptr;
  bool copying_ = false;
  CUevent ended_ = nullptr;  // the last call's work, but in a queue, whose calls cost an event less
  bool enqueued_ = false;
  bool idle_ = true;                     // no kernel since the last wait()
  bool was_captured_ = false;            // the last call
  std::optional<ContextScope> current_;  // both until end()
  std::optional<CaptureScope> alone_;
  std::vector<void*> pinned_;
  EngineCounters counters_;
  Profiler profiler_;
  NvtxSteps steps_;
};

}  // namespace minuet
