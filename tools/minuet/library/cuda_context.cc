#include "tools/minuet/library/cuda_context.h"

#include <dlfcn.h>

#include <string>

#include "tools/minuet/base/error.h"

namespace minuet::tool {

#define MINUET_TOOL_TEXT(name) #name
#define MINUET_TOOL_EXPANDED(name) MINUET_TOOL_TEXT(name)

llvm::Expected<std::unique_ptr<CudaContext>> CudaContext::open(const DeviceFacts& facts) {
  std::unique_ptr<CudaContext> context(new CudaContext());
  MINUET_TRY(context->open_driver());
  MINUET_TRY(context->retain(facts));
  return context;
}

/// Opens the driver library, which libminuet has already opened for the device, and looks up its functions.
llvm::Error CudaContext::open_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) return bad_input("cannot open the CUDA driver: {0}", dlerror());
#define MINUET_ROW(name)                                                                          \
  driver_.name = reinterpret_cast<decltype(&::name)>(dlsym(library, MINUET_TOOL_EXPANDED(name))); \
  if (!driver_.name)                                                                              \
    return bad_input("the CUDA driver has no {0}, so it is too old: install a newer driver",      \
                     MINUET_TOOL_EXPANDED(name));
  MINUET_TOOL_DRIVER(MINUET_ROW)
#undef MINUET_ROW
  return llvm::Error::success();
}

llvm::Error CudaContext::retain(const DeviceFacts& facts) {
  int ordinal = 0;
  if (llvm::StringRef(facts.name).substr(5).getAsInteger(10, ordinal))
    return bad_input("the device '{0}' is not a GPU, so it has no CUDA context", facts.name);
  MINUET_TRY(check(driver_.cuDeviceGet(&device_, ordinal), "cannot find the GPU"));
  MINUET_TRY(
      check(driver_.cuDevicePrimaryCtxRetain(&context_, device_), "cannot retain the context of the GPU"));
  MINUET_TRY(check(driver_.cuCtxPushCurrent(context_), "cannot make the GPU's context current"));
  is_current_ = true;
  return llvm::Error::success();
}

CudaContext::~CudaContext() {
  if (!context_) return;
  CUcontext current = nullptr;
  if (is_current_) static_cast<void>(driver_.cuCtxPopCurrent(&current));
  static_cast<void>(driver_.cuDevicePrimaryCtxRelease(device_));
}

llvm::Error CudaContext::check(CUresult result, const char* attempt) const {
  if (result == CUDA_SUCCESS) return llvm::Error::success();
  const char* name = nullptr;
  driver_.cuGetErrorName(result, &name);
  return broken(std::string(attempt) + ": " + (name ? name : "unknown error"));
}

}  // namespace minuet::tool
