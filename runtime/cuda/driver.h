// The CUDA driver, opened with dlopen at first use: the table of its entry points, its errors.
//
// Names like driver.cuMemAlloc are macros of cuda.h for the versioned name; the table uses the same
// macros, so callers write what the manual says.
#pragma once

#include <cuda.h>

#include <string>

#include "codegen/base/error.h"

namespace minuet {

struct Driver {
#define MINUET_DRIVER_ROW(name) decltype(&::name) name = nullptr;
#include "runtime/cuda/driver.inc"

  /// The process's driver, initialised. Thread-safe; never unloaded. Unavailable, with the reason,
  /// where there is no libcuda.so.1, it is too old, or it finds no GPU; asked again, it looks again.
  static llvm::Expected<const Driver*> get();
};

/// "13.0"
std::string version_text(int version);

/// The error of a driver call: its name and meaning after what was attempted.
llvm::Error driver_error(const Driver& driver, CUresult result, llvm::StringRef attempt);

/// Costs one comparison where the call succeeded. `attempt` names the call and its purpose.
inline llvm::Error check(const Driver& driver, CUresult result, const char* attempt) {
  if (result == CUDA_SUCCESS) return llvm::Error::success();
  return driver_error(driver, result, attempt);
}

inline CUdeviceptr device_address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// Makes a context current, and the caller's again at the end. Where that fails none is current, so that the
/// next call fails too instead of reaching another GPU.
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

/// While it lives, captures of other threads forbid this thread nothing: what it does is nothing to their
/// graphs. Nor does its own, where the mode is RELAXED: for what is nothing to that graph either.
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
