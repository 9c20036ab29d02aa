// Streams for tests of the C ABI.
#pragma once

#include <cuda.h>

#include <atomic>
#include <future>

#include "tests/runtime/cuda/driver_function.h"
#include "tests/support/abi.h"
#include "tests/support/wait_until.h"

namespace minuet::abi {

/// A stream of the device's primary context, where there is a GPU.
class Stream {
 public:
  explicit Stream(Machine& machine) {
    if (machine.is_cpu()) return;
    CUcontext context = nullptr;
    retained_ = driver_function<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(
                    &context, 0) == CUDA_SUCCESS;
    EXPECT_TRUE(retained_);
    make_current(context);
    EXPECT_EQ(driver_function<CUresult (*)(CUstream*, unsigned)>("cuStreamCreate")(&stream_,
                                                                                   CU_STREAM_NON_BLOCKING),
              CUDA_SUCCESS);
    context_ = context;
  }
  ~Stream() {
    if (!retained_) return;
    driver_function<CUresult (*)(CUstream)>("cuStreamDestroy_v2")(stream_);
    driver_function<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxRelease_v2")(0);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// For the calling thread.
  void make_current() const { make_current(context_); }
  CUstream get() const { return stream_; }

 private:
  static void make_current(CUcontext context) {
    if (context) driver_function<CUresult (*)(CUcontext)>("cuCtxPushCurrent_v2")(context);
  }
  bool retained_ = false;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};

/// Work that is enqueued on a stream behind a gate waits until the gate is opened.
class Gate {
 public:
  explicit Gate(CUstream stream) {
    const auto wait = [](void* future) { static_cast<std::shared_future<void>*>(future)->wait(); };
    EXPECT_EQ(
        driver_function<CUresult (*)(CUstream, CUhostFn, void*)>("cuLaunchHostFunc")(stream, wait, &opened_),
        CUDA_SUCCESS);
  }
  ~Gate() {
    if (!is_open_) open();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() {
    is_open_ = true;
    promise_.set_value();
  }
  /// Any thread may ask.
  bool is_open() const { return is_open_; }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_{promise_.get_future()};
  std::atomic<bool> is_open_{false};
};

/// Makes the call again while it is refused because another thread is in its object, and gives its answer. A
/// thread that looks whether this call has begun is in the object too, for as long as its own call takes.
template <class Call>
minuet_status when_let_in(const Call& call) {
  minuet_status status = MINUET_OK;
  wait_until("a call that is let in", [&] { return (status = call()) != MINUET_FAILED_PRECONDITION; });
  return status;
}

}  // namespace minuet::abi
