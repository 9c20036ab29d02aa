#include "runtime/cuda/queue.h"

namespace minuet {
namespace {

CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

constexpr int kMostAttributes = 2;  // of a launch

/// How many a kernel has, the first of them.
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

llvm::Expected<std::unique_ptr<Queue>> Queue::create(std::shared_ptr<CudaDevice> device, i32 streams) {
  std::unique_ptr<Queue> queue(new Queue(std::move(device)));
  MINUET_TRY(queue->create_streams(std::clamp(streams, 1, kMaxStreams)));
  return queue;
}

llvm::Error Queue::create_streams(i32 streams) {
  const ContextScope scope(driver_, device_->context());
  for (i32 i = 0; i < streams; ++i) {
    if (i > 0) {
      MINUET_TRY(
          check(driver_, driver_.cuStreamCreate(&streams_[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
      count_ = i + 1;
      ++counters_.allocations;
    }
    MINUET_TRY(check(driver_, driver_.cuEventCreate(&events_[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    ++counters_.allocations;
  }
  for (CUevent* event : {&copied_, &ended_}) {
    ++counters_.allocations;
    MINUET_TRY(check(driver_, driver_.cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  }
  return llvm::Error::success();
}

Queue::~Queue() {
  const ContextScope scope(driver_, device_->context());
  if (enqueued_) static_cast<void>(driver_.cuEventSynchronize(ended_));
  for (i32 i = 1; i < count_; ++i) {
    static_cast<void>(driver_.cuStreamSynchronize(streams_[i]));
    static_cast<void>(driver_.cuStreamDestroy(streams_[i]));
  }
  for (CUevent event : events_) {
    if (event) static_cast<void>(driver_.cuEventDestroy(event));
  }
  for (CUevent event : {copied_, ended_}) {
    if (event) static_cast<void>(driver_.cuEventDestroy(event));
  }
  for (void* memory : pinned_) static_cast<void>(driver_.cuMemFreeHost(memory));
  profiler_.release();
}

llvm::Error Queue::begin(CUstream stream) {
  // Also for the stream of the last call: it may be another one at the same address.
  CUcontext context = nullptr;
  CUgreenCtx green = nullptr;
  MINUET_TRY(
      check(driver_, driver_.cuStreamGetCtx_v2(stream, &context, &green), "looking at the caller's stream"));
  if (context != device_->context()) {
    // A launch would find its kernel there too, but the plan's memory, events and GEMMs are not there.
    return make_error(StatusCode::InvalidArgument,
                      "the stream belongs to another context than the primary context of {0}, where the "
                      "plan's memory is: use a stream of the primary context",
                      device_->info().name);
  }
  if (green) MINUET_TRY(accept_green(stream));
  // Side streams would leave the multiprocessors that a green context is confined to.
  usable_ = green ? 1 : count_;
  streams_[0] = stream;
  profiler_.begin();
  return mark(Stage::None);
}

llvm::Error Queue::end() {
  MINUET_TRY(mark(Stage::None));
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  MINUET_TRY(check(driver_, driver_.cuStreamIsCapturing(streams_[0], &capture), "cuStreamIsCapturing"));
  if (capture != CU_STREAM_CAPTURE_STATUS_NONE) return llvm::Error::success();
  enqueued_ = true;
  return check(driver_, driver_.cuEventRecord(ended_, streams_[0]), "cuEventRecord at a call's end");
}

/// Copies are followed by events of the primary context, which a driver might not take on this stream.
llvm::Error Queue::accept_green(CUstream stream) {
  const CUresult result = driver_.cuEventRecord(events_[0], stream);
  if (result == CUDA_SUCCESS) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "this driver keeps the events of {0} off the streams of a green context ({1}): use a "
                    "stream of the primary context",
                    device_->info().name,
                    take_status(driver_error(driver_, result, "cuEventRecord")).message());
}

llvm::Error Queue::launch_raw(CUkernel kernel, const KernelNeeds& needs, i64 blocks, void** arguments) {
  // Only the first dimension of a grid reaches 2^31 - 1 blocks.
  if (blocks > 0x7fffffff) {
    return make_error(StatusCode::OutOfRange, "a kernel would need {0} blocks; a grid has at most 2^31 - 1",
                      blocks);
  }
  if (blocks % needs.cluster != 0) {
    return make_error(StatusCode::Internal, "a kernel in clusters of {0} blocks would have {1} of them",
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
  config.hStream = streams_[0];
  ++counters_.kernels;
  // cuda.h lets a CUkernel stand for the function of whatever context the launch is in.
  const auto function = reinterpret_cast<CUfunction>(kernel);
  return check(driver_, driver_.cuLaunchKernelEx(&config, function, arguments, nullptr), "cuLaunchKernelEx");
}

llvm::Error Queue::fill(void* target, u32 word, i64 words) {
  if (words <= 0) return llvm::Error::success();
  ++counters_.fills;
  return check(driver_,
               driver_.cuMemsetD32Async(address(target), word, static_cast<std::size_t>(words), streams_[0]),
               "cuMemsetD32Async");
}

llvm::Error Queue::read_back(void* host, const void* source, i64 bytes) {
  if (bytes <= 0) return llvm::Error::success();
  ++counters_.copies;
  return check(driver_,
               driver_.cuMemcpyDtoHAsync(host, address(source), static_cast<std::size_t>(bytes), streams_[0]),
               "cuMemcpyDtoHAsync");
}

llvm::Error Queue::send(void* target, const void* host, i64 bytes) {
  if (bytes <= 0) return llvm::Error::success();
  ++counters_.copies;
  return check(driver_,
               driver_.cuMemcpyHtoDAsync(address(target), host, static_cast<std::size_t>(bytes), streams_[0]),
               "cuMemcpyHtoDAsync");
}

llvm::Error Queue::wait() {
  // The time until the next operation is the host's.
  MINUET_TRY(mark(Stage::None));
  ++counters_.host_syncs;
  return check(driver_, driver_.cuStreamSynchronize(streams_[0]), "waiting for the stream");
}

llvm::Expected<void*> Queue::allocate_pinned(i64 bytes) {
  void* memory = nullptr;
  pinned_.reserve(pinned_.size() + 1);  // so that nothing is lost below
  const CUresult result = driver_.cuMemHostAlloc(&memory, static_cast<std::size_t>(bytes > 0 ? bytes : 1), 0);
  if (result != CUDA_SUCCESS) {
    return driver_error(driver_, result, llvm::formatv("allocating {0} bytes of pinned memory", bytes).str());
  }
  pinned_.push_back(memory);
  ++counters_.allocations;
  return memory;
}

llvm::Error Queue::record_copy() {
  copying_ = true;
  return check(driver_, driver_.cuEventRecord(copied_, streams_[0]), "cuEventRecord after a copy");
}

llvm::Error Queue::wait_for_copy() {
  if (!copying_) return llvm::Error::success();
  copying_ = false;
  if (driver_.cuEventQuery(copied_) == CUDA_SUCCESS) return llvm::Error::success();
  ++counters_.host_syncs;
  return check(driver_, driver_.cuEventSynchronize(copied_), "waiting for a copy");
}

llvm::Error Queue::fork(i32 used) {
  if (used < 2) return llvm::Error::success();
  MINUET_TRY(check(driver_, driver_.cuEventRecord(events_[0], streams_[0]), "cuEventRecord at a fork"));
  for (i32 i = 1; i < used; ++i) {
    MINUET_TRY(
        check(driver_, driver_.cuStreamWaitEvent(streams_[i], events_[0], 0), "cuStreamWaitEvent at a fork"));
  }
  return llvm::Error::success();
}

llvm::Error Queue::join(i32 used) {
  for (i32 i = 1; i < used; ++i) {
    MINUET_TRY(check(driver_, driver_.cuEventRecord(events_[i], streams_[i]), "cuEventRecord at a join"));
    MINUET_TRY(
        check(driver_, driver_.cuStreamWaitEvent(streams_[0], events_[i], 0), "cuStreamWaitEvent at a join"));
  }
  return llvm::Error::success();
}

}  // namespace minuet
