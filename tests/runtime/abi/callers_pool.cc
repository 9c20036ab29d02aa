#include "tests/runtime/abi/callers_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/runtime/cuda/driver_function.h"
#include "tests/support/expect.h"

namespace minuet::abi {
namespace {

constexpr std::uintptr_t kAlignment = 256;
constexpr int64_t kMisaligned = 64;
constexpr unsigned kOverwritten = 0xfefefefe;  // no row, and large in every dtype

}  // namespace

CallersPool::CallersPool(std::string name) : name_(std::move(name)), on_gpu_(name_ != "cpu") {
  if (!on_gpu_) return;
  CUcontext context = nullptr;
  EXPECT_EQ(driver_function<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0),
            CUDA_SUCCESS);
  driver_function<CUresult (*)(CUcontext)>("cuCtxPushCurrent_v2")(context);
  EXPECT_EQ(
      driver_function<CUresult (*)(CUstream*, unsigned)>("cuStreamCreate")(&copies_, CU_STREAM_NON_BLOCKING),
      CUDA_SUCCESS);
}

CallersPool::~CallersPool() {
  EXPECT_EQ(faults(), "");
  for (const Block& block : idle_) {
    if (on_gpu_) {
      driver_function<CUresult (*)(CUdeviceptr)>("cuMemFree_v2")(reinterpret_cast<CUdeviceptr>(block.memory));
    } else {
      std::free(block.memory);
    }
  }
  if (!on_gpu_) return;
  driver_function<CUresult (*)(CUstream)>("cuStreamDestroy_v2")(copies_);
  CUcontext context = nullptr;
  driver_function<CUresult (*)(CUcontext*)>("cuCtxPopCurrent_v2")(&context);
  driver_function<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxRelease_v2")(0);
}

minuet_device_options CallersPool::options() {
  minuet_device_options options = MINUET_DEVICE_OPTIONS_INIT;
  options.allocate = [](int64_t bytes, void* stream, void* user) {
    return static_cast<CallersPool*>(user)->allocate(bytes, stream);
  };
  options.free = [](void* memory, int64_t bytes, void* stream, void* user) {
    static_cast<CallersPool*>(user)->free(memory, bytes, stream);
  };
  options.user = this;
  return options;
}

void CallersPool::fail(int64_t nth) { left_ = nth; }

int64_t CallersPool::live() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(live_.size());
}

std::set<void*> CallersPool::streams() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return streams_;
}

std::string CallersPool::faults() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return faults_;
}

void CallersPool::note_call(void* stream) {
  if (visit_) visit_(stream);
  std::string fault;
  if (on_gpu_) {
    CUcontext context = nullptr;
    driver_function<CUresult (*)(CUcontext*)>("cuCtxGetCurrent")(&context);
    if (!context) fault = "no context is current in a call\n";
  } else if (stream) {
    fault = "the CPU device has no streams\n";
  }
  if (stream && on_gpu_) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    driver_function<CUresult (*)(CUstream, CUstreamCaptureStatus*)>("cuStreamIsCapturing")(
        static_cast<CUstream>(stream), &capture);
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE) fault = "a call for a stream that is being captured\n";
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.insert(stream);
  faults_ += fault;
}

void* CallersPool::allocate(int64_t bytes, void* stream) {
  note_call(stream);
  ++allocations_;
  if (left_ > 0 && --left_ == 0) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes < 1) faults_ += "an allocation of nothing\n";
  // A block that was freed on a stream is ready for that stream only.
  const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const Block& block) {
    return block.bytes == bytes && (!block.stream || block.stream == stream);
  });
  Block block{nullptr, bytes, stream};
  if (found != idle_.end()) {
    block.memory = found->memory;
    idle_.erase(found);
  } else {
    block.memory = make(bytes + kMisaligned);
  }
  if (!block.memory) return nullptr;
  // Memory of a stream is ready only for work that is enqueued on it from now on.
  if (stream) overwrite(block, stream);
  char* const given = block.memory + (misaligns_ ? kMisaligned : 0);
  live_[given] = block;
  return given;
}

char* CallersPool::make(int64_t bytes) {
  bytes = (bytes + 3) / 4 * 4;
  void* made = nullptr;
  if (on_gpu_) {
    ++driver_allocations_;
    CUdeviceptr memory = 0;
    driver_function<CUresult (*)(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2")(
        &memory, static_cast<std::size_t>(bytes));
    made = reinterpret_cast<void*>(memory);
  } else if (posix_memalign(&made, kAlignment, static_cast<std::size_t>(bytes)) == 0) {
    std::memset(made, 0xfe, static_cast<std::size_t>(bytes));
  }
  return static_cast<char*>(made);
}

void CallersPool::free(void* memory, int64_t bytes, void* stream) {
  note_call(stream);
  ++frees_;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(memory);
  if (found == live_.end()) {
    faults_ += "memory is given back that is not in use\n";
    return;
  }
  Block block = found->second;
  if (block.bytes != bytes) faults_ += "a block is given back with another size\n";
  if (block.stream && stream && block.stream != stream) faults_ += "a block changed its stream\n";
  live_.erase(found);
  block.stream = stream;
  overwrite(block, stream);
  idle_.push_back(block);
}

/// Without a stream, nothing may be using the block, so the host overwrites it now.
void CallersPool::overwrite(const Block& block, void* stream) const {
  if (!on_gpu_) {
    std::memset(block.memory, 0xfe, static_cast<std::size_t>(block.bytes));
    return;
  }
  // AddressSanitizer knows the gaps between the parts of a block, which enqueued work must not touch.
  if (stream && kAddressSanitized) return;
  const auto target = stream ? static_cast<CUstream>(stream) : copies_;
  driver_function<CUresult (*)(CUdeviceptr, unsigned, std::size_t, CUstream)>("cuMemsetD32Async")(
      reinterpret_cast<CUdeviceptr>(block.memory), kOverwritten, static_cast<std::size_t>(block.bytes / 4),
      target);
  if (!stream) driver_function<CUresult (*)(CUstream)>("cuStreamSynchronize")(copies_);
}

}  // namespace minuet::abi
