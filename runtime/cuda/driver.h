// The CUDA driver, opened with dlopen at first use: the table of its entry points, and its errors.
//
// Names such as cuMemAlloc are macros of cuda.h for versioned names. The table is filled with the same
// macros, so callers use the names of the driver's manual.
#pragma once

#include <cuda.h>

#include <string>

#include "codegen/base/error.h"

namespace minuet {

struct Driver {
#define MINUET_DRIVER_ROW(name) decltype(&::name) name = nullptr;
#include "runtime/cuda/driver.inc"

  /// Returns the process's initialised driver. Thread-safe; the driver is never unloaded. Returns Unavailable
  /// with the reason if there is no libcuda.so.1, it is too old, or it finds no GPU; the next call looks
  /// again.
  static llvm::Expected<const Driver*> get();
};

/// Formats a version, for example "13.0".
std::string version_text(int version);

/// Returns the error of a driver call: `attempt`, then the name and meaning of the result.
llvm::Error driver_error(const Driver& driver, CUresult result, llvm::StringRef attempt);

/// Costs one comparison if the call succeeded. `attempt` names the call and its purpose.
inline llvm::Error check(const Driver& driver, CUresult result, const char* attempt) {
  if (result == CUDA_SUCCESS) return llvm::Error::success();
  return driver_error(driver, result, attempt);
}

inline CUdeviceptr device_address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// Makes a context current and restores the caller's at the end. If that fails, no context is current, so
/// that the next call fails instead of reaching another GPU.
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

/// While it lives, stream captures of other threads do not restrict this thread's calls, which do not affect
/// their graphs. In RELAXED mode, captures of this thread do not either; this is for calls that do not affect
/// its own graph.
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
