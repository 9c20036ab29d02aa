// Entry points of the software driver: system, devices, contexts, green contexts.
#include <algorithm>
#include <cstring>
#include <string>

#include "tests/support/software_cuda/driver.h"

using minuet::software_cuda::Context;
using minuet::software_cuda::Driver;
using minuet::software_cuda::GreenContext;
using minuet::software_cuda::kDevices;
using minuet::software_cuda::Stream;

namespace {

constexpr int kVersion = 13000, kMajor = 9, kMinor = 0, kMultiprocessors = 32, kL2Bytes = 32 << 20;

struct ErrorText {
  CUresult result;
  const char *name, *meaning;
};
constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for the device"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
     "invalid resource configuration"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
};

const ErrorText* text_of(CUresult result) {
  const auto* const found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                         [&](const ErrorText& text) { return text.result == result; });
  return found == std::end(kErrors) ? nullptr : found;
}

bool is_device(CUdevice device) { return device >= 0 && device < kDevices; }
Context* context_of(CUcontext handle) { return reinterpret_cast<Context*>(handle); }
CUcontext handle_of(Context* context) { return reinterpret_cast<CUcontext>(context); }

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  SOFTWARE_CUDA_CALL(cuInit);
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  *version = kVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  const ErrorText* const known = text_of(error);
  *text = known ? known->name : nullptr;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorText* const known = text_of(error);
  *text = known ? known->meaning : nullptr;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  *count = kDevices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::strncpy(name, "software CUDA device of the tests", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = kMajor;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = kMinor;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = kMultiprocessors;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = kL2Bytes;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
  SOFTWARE_CUDA_CALL(cuDeviceTotalMem);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = driver.memory.limit;
  return CUDA_SUCCESS;
}

// ---- contexts ------------------------------------------------------------------------------------

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  SOFTWARE_CUDA_CALL(cuDevicePrimaryCtxRetain);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  ++driver.primary[device].users;
  *context = handle_of(&driver.primary[device]);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  SOFTWARE_CUDA_CALL(cuDevicePrimaryCtxRelease);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context& context = driver.primary[device];
  if (context.users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context.users == 0) driver.empty(context);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  SOFTWARE_CUDA_CALL(cuDevicePrimaryCtxReset);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  driver.empty(driver.primary[device]);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  SOFTWARE_CUDA_CALL(cuCtxPushCurrent);
  if (context && !driver.is_alive(context_of(context))) return CUDA_ERROR_INVALID_CONTEXT;
  return Driver::current().push(context_of(context)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  SOFTWARE_CUDA_CALL(cuCtxPopCurrent);
  *context = handle_of(driver.current_context());
  return Driver::current().pop() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  SOFTWARE_CUDA_CALL(cuCtxGetCurrent);
  *context = handle_of(driver.current_context());
  return CUDA_SUCCESS;
}

#undef cuCtxCreate
#undef cuCtxCreate_v2
CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  SOFTWARE_CUDA_CALL(cuCtxCreate);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  auto* const made = new Context;
  made->device = device;
  driver.contexts.insert(made);
  Driver::current().push(made);
  *context = handle_of(made);
  return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext handle) {
  SOFTWARE_CUDA_CALL(cuCtxDestroy);
  Context* const context = context_of(handle);
  if (!driver.contexts.count(context)) return CUDA_ERROR_INVALID_CONTEXT;
  driver.empty(*context);
  driver.contexts.erase(context);
  if (driver.current_context() == context) Driver::current().pop();
  delete context;
  return CUDA_SUCCESS;
}

// ---- green contexts: a stream of one is told apart, and no work is confined -----------------------

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  SOFTWARE_CUDA_CALL(cuDeviceGetDevResource);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_NOT_SUPPORTED;
  *resource = {};
  resource->type = type;
  resource->sm.smCount = kMultiprocessors;
  return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned* groups, const CUdevResource* input,
                                     CUdevResource* rest, unsigned, unsigned least) {
  SOFTWARE_CUDA_CALL(cuDevSmResourceSplitByCount);
  if (*groups != 1 || least > input->sm.smCount) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  *result = *rest = *input;
  result->sm.smCount = least;
  rest->sm.smCount = input->sm.smCount - least;
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource*, unsigned) {
  SOFTWARE_CUDA_CALL(cuDevResourceGenerateDesc);
  static char any;
  *description = reinterpret_cast<CUdevResourceDesc>(&any);
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx* green, CUdevResourceDesc, CUdevice device, unsigned) {
  SOFTWARE_CUDA_CALL(cuGreenCtxCreate);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context& context = driver.primary[device];
  ++context.users;
  *green = reinterpret_cast<CUgreenCtx>(new GreenContext{&context});
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green) {
  SOFTWARE_CUDA_CALL(cuGreenCtxDestroy);
  auto* const made = reinterpret_cast<GreenContext*>(green);
  if (--made->context->users == 0) driver.empty(*made->context);
  delete made;
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx green, unsigned, int) {
  SOFTWARE_CUDA_CALL(cuGreenCtxStreamCreate);
  auto* const made = new Stream;
  made->context = reinterpret_cast<GreenContext*>(green)->context;
  made->green = green;
  made->blocking = false;
  driver.streams.insert(made);
  *stream = reinterpret_cast<CUstream>(made);
  return CUDA_SUCCESS;
}
}
