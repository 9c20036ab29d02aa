// One engine's way to the GPU: launches, copies and fills on the caller's stream, counted and timed.
//
// The pool's side streams fork from the caller's stream and join it again, so that the caller sees
// one stream, under graph capture too. One thread at a time.
#pragma once

#include <cuda.h>

#include <array>
#include <memory>
#include <vector>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/launch_grid.h"
#include "runtime/cuda/profiler.h"

namespace minuet {

constexpr i32 kMaxStreams = 4;

class Queue {
 public:
  static llvm::Expected<std::unique_ptr<Queue>> create(std::shared_ptr<CudaDevice> device, i32 streams);
  /// Waits for what was enqueued; frees pinned memory. Never fails.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  CudaDevice& device() const { return *device_; }
  const Driver& driver() const { return driver_; }
  i32 multiprocessors() const { return device_->multiprocessors(); }
  EngineCounters& counters() { return counters_; }
  Profiler& profiler() { return profiler_; }

  /// InvalidArgument where the stream belongs to another context than the device's primary one. Streams of
  /// green contexts, which are parts of the primary one, are welcome.
  llvm::Error begin(CUstream stream);
  /// The destructor waits for what was enqueued until here, unless it is being captured.
  llvm::Error end();
  CUstream stream(i32 index = 0) const { return streams_[index]; }
  /// Streams of the pool, and how many of them the work of this call may spread over.
  i32 streams() const { return count_; }
  i32 usable_streams() const { return usable_; }

  /// What follows belongs to `stage`.
  llvm::Error mark(Stage stage) {
    return profiler_.on() ? profiler_.mark(stage, streams_[0], counters_) : llvm::Error::success();
  }

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
  explicit Queue(std::shared_ptr<CudaDevice> device)
      : device_(std::move(device)), driver_(device_->driver()), profiler_(driver_) {}
  llvm::Error create_streams(i32 streams);
  llvm::Error accept_green(CUstream stream);
  llvm::Error launch_raw(CUkernel kernel, const KernelNeeds& needs, i64 blocks, void** arguments);

  std::shared_ptr<CudaDevice> device_;
  const Driver& driver_;
  i32 count_ = 1;
  i32 usable_ = 1;
  std::array<CUstream, kMaxStreams> streams_ = {};  // [0] is the caller's
  std::array<CUevent, kMaxStreams> events_ = {};    // [0] forks, the others join
  CUevent copied_ = nullptr;
  bool copying_ = false;
  CUevent ended_ = nullptr;  // the last call's work
  bool enqueued_ = false;
  std::vector<void*> pinned_;
  EngineCounters counters_;
  Profiler profiler_;
};

}  // namespace minuet
