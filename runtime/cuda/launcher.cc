#include "runtime/cuda/launcher.h"

#include "llvm/ADT/ScopeExit.h"

namespace minuet {
namespace {

constexpr int kMostAttributes = 2;  // A launch has at most this many attributes.

/// Writes the launch attributes that the kernel needs and returns their number.
unsigned set_attributes(const KernelNeeds& needs, CUlaunchAttribute* attributes) {
  unsigned count = 0;
  if (needs.cluster > 1) {
    CUlaunchAttribute& attribute = attributes[count++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = static_cast<unsigned>(needs.cluster);
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  }
  if (needs.programmatic) {
    CUlaunchAttribute& attribute = attributes[count++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  return count;
}

}  // namespace

llvm::Expected<std::shared_ptr<SideStreams>> SideStreams::create(std::shared_ptr<CudaDevice> device) {
  std::shared_ptr<SideStreams> side(new SideStreams(std::move(device)));
  const Driver& driver = side->device_->driver();
  const ContextScope scope(driver, side->device_->context());
  for (i32 i = 0; i < kStreams; ++i) {
    if (i > 0) {
      MINUET_TRY(
          check(driver, driver.cuStreamCreate(&side->streams_[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
    }
    MINUET_TRY(
        check(driver, driver.cuEventCreate(&side->events_[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  }
  return side;
}

SideStreams::~SideStreams() {
  const Driver& driver = device_->driver();
  const ContextScope scope(driver, device_->context());
  const CaptureScope alone(driver);
  for (CUstream stream : streams_) {
    if (!stream) continue;
    static_cast<void>(driver.cuStreamSynchronize(stream));
    static_cast<void>(driver.cuStreamDestroy(stream));
  }
  for (CUevent event : events_) {
    if (event) static_cast<void>(driver.cuEventDestroy(event));
  }
}

llvm::Expected<std::unique_ptr<Launcher>> Launcher::create(std::shared_ptr<CudaDevice> device,
                                                           std::shared_ptr<SideStreams> side) {
  const bool in_queue = side != nullptr;
  if (!in_queue) {
    MINUET_ASSIGN(side, SideStreams::create(device));
  }
  std::unique_ptr<Launcher> made(new Launcher(std::move(device), std::move(side), in_queue));
  const ContextScope scope(made->driver_, made->device_->context());
  for (CUevent* event : {&made->copied_, &made->ended_}) {
    ++made->counters_.allocations;
    MINUET_TRY(
        check(made->driver_, made->driver_.cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  }
  return made;
}

Launcher::~Launcher() {
  const ContextScope scope(driver_, device_->context());
  const CaptureScope alone(driver_);
  wait_for_all();
  for (CUevent event : {copied_, ended_}) {
    if (event) static_cast<void>(driver_.cuEventDestroy(event));
  }
  for (void* memory : pinned_) static_cast<void>(driver_.cuMemFreeHost(memory));
  profiler_.release();
}

/// Waits for the enqueued work. If the stream of a queue is being captured, a wait for it would fail, so this
/// waits only for copies from pinned memory, through their event. Device memory needs no wait then, because
/// the queue's pool reuses it only for calls on the same stream.
void Launcher::wait_for_all() const {
  if (!enqueued_) return;
  if (!in_queue_) {
    static_cast<void>(driver_.cuEventSynchronize(ended_));
    return;
  }
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const bool known = driver_.cuStreamIsCapturing(stream_, &capture) == CUDA_SUCCESS;
  const bool is_free = known && capture == CU_STREAM_CAPTURE_STATUS_NONE;
  if (is_free && driver_.cuStreamSynchronize(stream_) == CUDA_SUCCESS) return;
  static_cast<void>(driver_.cuEventSynchronize(copied_));
}

llvm::Error Launcher::follow_last_call() const {
  if (!enqueued_ || in_queue_ || was_captured_) return llvm::Error::success();
  return check(driver_, driver_.cuStreamWaitEvent(stream_, ended_, 0),
               "cuStreamWaitEvent for an earlier call");
}

llvm::Error Launcher::wait_for_calls() const {
  if (!enqueued_) return llvm::Error::success();
  const ContextScope scope(driver_, device_->context());
  const CaptureScope alone(driver_);
  return in_queue_ ? check(driver_, driver_.cuStreamSynchronize(stream_), "waiting for a stream")
                   : check(driver_, driver_.cuEventSynchronize(ended_), "waiting for earlier work");
}

llvm::Error Launcher::begin(CUstream stream) {
  allows_early_reads_ = false;
  const bool is_first = !current_;
  if (is_first) current_.emplace(driver_, device_->context());
  llvm::Error accepted = accept(stream);
  // If begin() fails, end() is not called, so the caller's context is restored here.
  if (accepted && is_first) current_.reset();
  return accepted;
}

llvm::Error Launcher::accept(CUstream stream) {
  // A new stream may have the address of a destroyed one, so every call checks its stream.
  CUcontext context = nullptr;
  CUgreenCtx green = nullptr;
  MINUET_TRY(check(driver_, driver_.cuStreamGetCtx_v2(stream, &context, &green),
                   "reading the context of the caller's stream"));
  if (context != device_->context()) {
    // Kernels could run in the other context, but the plan's memory, events and GEMMs belong to the primary
    // context.
    return make_error(StatusCode::InvalidArgument,
                      "the stream belongs to another context than the primary context of {0}, where the "
                      "plan's memory is: use a stream of the primary context",
                      device_->info().name);
  }
  if (green) MINUET_TRY(accept_green(stream));
  // A call on a green context uses no side streams, because they would use multiprocessors outside of those
  // of the green context.
  usable_ = green ? 1 : kStreams;
  stream_ = work_stream_ = stream;
  MINUET_TRY(mark(Stage::None));
  return query_capture();
}

llvm::Error Launcher::query_capture() {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  MINUET_TRY(check(driver_, driver_.cuStreamIsCapturing(stream_, &capture), "cuStreamIsCapturing"));
  was_captured_ = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  if (!capture_scope_) capture_scope_.emplace(driver_);
  return llvm::Error::success();
}

llvm::Error Launcher::end() {
  const auto leave = llvm::make_scope_exit([&] { current_.reset(); });
  // A call that failed may have left a branch.
  end_branch();
  llvm::Error error = join_branch();
  capture_scope_.reset();
  if (!error) error = mark(Stage::None);
  if (was_captured_) return error;
  // The event is recorded after an error too, because the destructor waits for it.
  enqueued_ = true;
  if (in_queue_) return error;
  llvm::Error recorded =
      check(driver_, driver_.cuEventRecord(ended_, stream_), "cuEventRecord at a call's end");
  if (!error) return recorded;
  llvm::consumeError(std::move(recorded));
  return error;
}

/// Checks that the driver accepts an event of the primary context on a stream of a green context, because
/// copies record such events.
llvm::Error Launcher::accept_green(CUstream stream) {
  const CUresult result = driver_.cuEventRecord(side_->event(0), stream);
  if (result == CUDA_SUCCESS) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "this driver cannot record the events of {0} on a stream of a green context ({1}): use a "
                    "stream of the primary context",
                    device_->info().name,
                    take_status(driver_error(driver_, result, "cuEventRecord")).message());
}

llvm::Error Launcher::launch_raw(CUkernel kernel, const KernelNeeds& needs, i64 blocks, void** arguments) {
  // The grid is one-dimensional, because only the first dimension may have as many as 2^31 - 1 blocks.
  if (blocks > 0x7fffffff) {
    return make_error(StatusCode::OutOfRange,
                      "a kernel would need {0} blocks; a grid has at most 2^31 - 1: split the batch", blocks);
  }
  if (blocks % needs.cluster != 0) {
    return make_error(
        StatusCode::Internal,
        "a kernel in clusters of {0} blocks would have {1} blocks, which is not a multiple of {0}",
        needs.cluster, blocks);
  }
  CUlaunchAttribute attributes[kMostAttributes] = {};
  CUlaunchConfig config = {};
  config.attrs = attributes;
  config.numAttrs = set_attributes(needs, attributes);
  config.gridDimX = static_cast<unsigned>(blocks);
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = static_cast<unsigned>(needs.threads);
  config.sharedMemBytes = static_cast<unsigned>(needs.dynamic_shared_bytes);
  config.hStream = work_stream_;
  ++counters_.kernels;
  forget_early_reads();
  idle_ = false;
  // The driver accepts a CUkernel in place of a CUfunction and launches it in the current context.
  const auto function = reinterpret_cast<CUfunction>(kernel);
  return check(driver_, driver_.cuLaunchKernelEx(&config, function, arguments, nullptr), "cuLaunchKernelEx");
}

llvm::Error Launcher::fill(void* target, u32 word, i64 words) {
  if (words <= 0) return llvm::Error::success();
  forget_early_reads();
  ++counters_.fills;
  return check(
      driver_,
      driver_.cuMemsetD32Async(device_address(target), word, static_cast<std::size_t>(words), work_stream_),
      "cuMemsetD32Async");
}

llvm::Error Launcher::copy(void* target, const void* source, i64 bytes) {
  if (bytes <= 0) return llvm::Error::success();
  forget_early_reads();
  ++counters_.copies;
  return check(driver_,
               driver_.cuMemcpyAsync(device_address(target), device_address(source),
                                     static_cast<std::size_t>(bytes), work_stream_),
               "cuMemcpyAsync");
}

llvm::Error Launcher::read_back(void* host, const void* source, i64 bytes) {
  if (bytes <= 0) return llvm::Error::success();
  allows_early_reads_ = false;
  ++counters_.copies;
  return check(
      driver_,
      driver_.cuMemcpyDtoHAsync(host, device_address(source), static_cast<std::size_t>(bytes), stream_),
      "cuMemcpyDtoHAsync");
}

llvm::Error Launcher::send(void* target, const void* host, i64 bytes) {
  if (bytes <= 0) return llvm::Error::success();
  allows_early_reads_ = false;
  ++counters_.copies;
  return check(
      driver_,
      driver_.cuMemcpyHtoDAsync(device_address(target), host, static_cast<std::size_t>(bytes), stream_),
      "cuMemcpyHtoDAsync");
}

llvm::Error Launcher::wait() {
  // The time until the next operation is spent on the host and belongs to no stage.
  MINUET_TRY(mark(Stage::None));
  ++counters_.host_syncs;
  MINUET_TRY(check(driver_, driver_.cuStreamSynchronize(stream_), "waiting for the stream"));
  idle_ = true;
  return llvm::Error::success();
}

llvm::Expected<void*> Launcher::allocate_pinned(i64 bytes) {
  const ContextScope scope(driver_, device_->context());
  const CaptureScope alone(driver_);
  void* memory = nullptr;
  pinned_.reserve(pinned_.size() + 1);  // The reservation makes sure that push_back below cannot fail.
  const CUresult result = driver_.cuMemHostAlloc(&memory, static_cast<std::size_t>(bytes > 0 ? bytes : 1), 0);
  if (result != CUDA_SUCCESS) {
    return driver_error(driver_, result, llvm::formatv("allocating {0} bytes of pinned memory", bytes).str());
  }
  pinned_.push_back(memory);
  ++counters_.allocations;
  return memory;
}

llvm::Error Launcher::record_copy() {
  copying_ = true;
  return check(driver_, driver_.cuEventRecord(copied_, stream_), "cuEventRecord after a copy");
}

llvm::Error Launcher::wait_for_copy() {
  if (!copying_) return llvm::Error::success();
  copying_ = false;
  if (driver_.cuEventQuery(copied_) == CUDA_SUCCESS) return llvm::Error::success();
  ++counters_.host_syncs;
  return check(driver_, driver_.cuEventSynchronize(copied_), "waiting for a copy");
}

llvm::Error Launcher::fork(i32 used) {
  if (used < 2) return llvm::Error::success();
  MINUET_TRY(
      check(driver_, driver_.cuEventRecord(side_->event(0), stream_), "cuEventRecord at a fork of streams"));
  for (i32 i = 1; i < used; ++i) {
    MINUET_TRY(check(driver_, driver_.cuStreamWaitEvent(side_->stream(i), side_->event(0), 0),
                     "cuStreamWaitEvent at a fork of streams"));
  }
  return llvm::Error::success();
}

llvm::Error Launcher::join(i32 used) {
  allows_early_reads_ = false;
  for (i32 i = 1; i < used; ++i) {
    MINUET_TRY(check(driver_, driver_.cuEventRecord(side_->event(i), side_->stream(i)),
                     "cuEventRecord at a join of streams"));
    MINUET_TRY(check(driver_, driver_.cuStreamWaitEvent(stream_, side_->event(i), 0),
                     "cuStreamWaitEvent at a join of streams"));
  }
  return llvm::Error::success();
}

llvm::Error Launcher::begin_branch() {
  if (usable_ < 2) return llvm::Error::success();
  MINUET_TRY(fork(1 + kBranchStream));
  has_branch_ = true;
  allows_early_rows_ = false;
  work_stream_ = stream(kBranchStream);
  return llvm::Error::success();
}

llvm::Error Launcher::join_branch() {
  return std::exchange(has_branch_, false) ? join(1 + kBranchStream) : llvm::Error::success();
}

}  // namespace minuet
