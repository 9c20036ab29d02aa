// Provides the functions of the CUDA driver that the tool calls itself, and makes a GPU's primary context
// current for these calls.
#pragma once

#include <cuda.h>

#include <memory>

#include "tools/minuet/library/library.h"

namespace minuet::tool {

// Lists the driver functions as cuda.h spells them. Some of the names are macros that expand to a versioned
// name.
#define MINUET_TOOL_DRIVER(row)                                                                           \
  row(cuGetErrorName) row(cuDeviceGet) row(cuDeviceGetAttribute) row(cuDevicePrimaryCtxRetain)            \
      row(cuDevicePrimaryCtxRelease) row(cuCtxPushCurrent) row(cuCtxPopCurrent) row(cuLibraryLoadData)    \
          row(cuLibraryUnload) row(cuLibraryGetKernel) row(cuLaunchKernelEx) row(cuMemsetD32Async)        \
              row(cuStreamCreate) row(cuStreamDestroy) row(cuStreamSynchronize) row(cuStreamBeginCapture) \
                  row(cuStreamEndCapture) row(cuGraphDestroy) row(cuGraphInstantiateWithFlags)            \
                      row(cuGraphExecDestroy) row(cuGraphLaunch) row(cuEventCreate) row(cuEventDestroy)   \
                          row(cuEventRecord) row(cuEventSynchronize) row(cuEventElapsedTime)

/// Retains a GPU's primary context and keeps it current on the creating thread until the object is destroyed.
class CudaContext {
 public:
  struct Driver {
#define MINUET_ROW(name) decltype(&::name) name = nullptr;
    MINUET_TOOL_DRIVER(MINUET_ROW)
#undef MINUET_ROW
  };

  static llvm::Expected<std::unique_ptr<CudaContext>> open(const DeviceFacts& facts);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const Driver& driver() const { return driver_; }
  CUdevice device() const { return device_; }
  /// Returns an error that begins with `attempt` unless `result` is a success.
  llvm::Error check(CUresult result, const char* attempt) const;

 private:
  CudaContext() = default;
  llvm::Error open_driver();
  llvm::Error retain(const DeviceFacts& facts);

  Driver driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  bool is_current_ = false;
};

}  // namespace minuet::tool
