// Opens the CUDA driver with dlopen at its first use. Declares the table of its entry points and the
// conversion of its errors.
//
// cuda.h defines names such as cuMemAlloc as macros that expand to versioned names. The table is filled
// through the same macros, so callers use the names of the driver's manual.
#pragma once

#include <cuda.h>

#include <string>

#include "codegen/base/error.h"

namespace minuet {

struct Driver {
#define MINUET_DRIVER_ROW(name) decltype(&::name) name = nullptr;
#include "runtime/cuda/driver.inc"

  /// Returns the driver of this process after initialising it. The function is thread-safe, and the driver is
  /// never unloaded. If there is no libcuda.so.1, or if it is too old or finds no GPU, the function returns
  /// Unavailable with the reason, and the next call tries again.
  static llvm::Expected<const Driver*> get();
};

/// Formats the driver's number of a CUDA version. For example, 13000 becomes "13.0".
std::string version_text(int version);

/// Returns the error of a failed driver call. Its message has `attempt`, then the name and the meaning of the
/// result.
llvm::Error driver_error(const Driver& driver, CUresult result, llvm::StringRef attempt);

/// Returns an error if a driver call failed. `attempt` names the call or its purpose. For a successful call
/// this costs one comparison.
inline llvm::Error check(const Driver& driver, CUresult result, const char* attempt) {
  if (result == CUDA_SUCCESS) return llvm::Error::success();
  return driver_error(driver, result, attempt);
}

inline CUdeviceptr device_address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// Makes a context current and restores the caller's context at the end of the scope. If it fails to do so,
/// it makes no context current, so that the next driver call fails instead of reaching another GPU.
class ContextScope {
 public:
  ContextScope(const Driver& driver, CUcontext context)
      : driver_(driver),
        pushed_(driver.cuCtxPushCurrent(context) == CUDA_SUCCESS ||
                driver.cuCtxPushCurrent(nullptr) == CUDA_SUCCESS) {}
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope() {
    CUcontext ours = nullptr;
    if (pushed_) static_cast<void>(driver_.cuCtxPopCurrent(&ours));
  }

 private:
  const Driver& driver_;
  bool pushed_;
};

/// Sets the capture mode of this thread during the scope. In THREAD_LOCAL mode, stream captures of other
/// threads do not forbid any driver call of this thread, because its calls do not affect their graphs.
/// RELAXED mode also ignores captures of this thread. It is for calls that do not affect the graph of such a
/// capture.
class CaptureScope {
 public:
  explicit CaptureScope(const Driver& driver, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
      : driver_(driver), mode_(mode) {
    exchange();
  }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
  ~CaptureScope() { exchange(); }

 private:
  void exchange() { static_cast<void>(driver_.cuThreadExchangeStreamCaptureMode(&mode_)); }

  const Driver& driver_;
  CUstreamCaptureMode mode_;
};

}  // namespace minuet
