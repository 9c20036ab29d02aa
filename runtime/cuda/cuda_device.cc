#include "runtime/cuda/cuda_device.h"

#include "runtime/cuda/cuda_engine.h"
#include "runtime/cuda/ops.h"

namespace minuet {
namespace {

constexpr int kLeastDriverVersion = 13000;

/// Returns the name of an architecture. From Hopper (9.0) on, the name ends in 'a', because some instructions
/// exist only on one GPU generation and require this suffix.
std::string arch_name(int major, int minor) {
  return "sm_" + std::to_string(major) + std::to_string(minor) + (major >= 9 ? "a" : "");
}

}  // namespace

llvm::Expected<std::shared_ptr<CudaDevice>> CudaDevice::open(int ordinal, std::string cublaslt,
                                                             const AllocatorFunctions& allocator) {
  MINUET_ASSIGN(const Driver* driver, Driver::get());
  int count = 0;
  MINUET_TRY(check(*driver, driver->cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count) {
    return make_error(StatusCode::Unavailable,
                      "there is no GPU cuda:{0}: the driver shows {1} in all, numbered from 0 "
                      "(CUDA_VISIBLE_DEVICES may hide others)",
                      ordinal, count);
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
  MINUET_TRY(check(*driver, driver->cuDeviceGet(&device, ordinal), "cuDeviceGet"));
  MINUET_TRY(check(*driver, driver->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain"));
  std::shared_ptr<CudaDevice> opened(
      new CudaDevice(*driver, device, context, std::move(cublaslt), allocator));
  MINUET_TRY(opened->describe(ordinal));
  return opened;
}

llvm::Error CudaDevice::describe(int ordinal) {
  const ContextScope scope(driver_, context_);
  auto attribute = [&](CUdevice_attribute which, int& value) {
    return check(driver_, driver_.cuDeviceGetAttribute(&value, which, device_), "cuDeviceGetAttribute");
  };
  int major = 0, minor = 0, version = 0, l2_bytes = 0;
  char name[256] = {};
  std::size_t bytes = 0;
  MINUET_TRY(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major));
  MINUET_TRY(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor));
  MINUET_TRY(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, multiprocessors_));
  MINUET_TRY(attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, l2_bytes));
  MINUET_TRY(check(driver_, driver_.cuDeviceGetName(name, sizeof(name) - 1, device_), "cuDeviceGetName"));
  MINUET_TRY(check(driver_, driver_.cuDeviceTotalMem(&bytes, device_), "cuDeviceTotalMem"));
  MINUET_TRY(check(driver_, driver_.cuDriverGetVersion(&version), "cuDriverGetVersion"));
  if (version < kLeastDriverVersion) {
    return make_error(StatusCode::Unavailable,
                      "the CUDA driver supports CUDA {0} only: install driver 580 or newer, which kernels "
                      "and GEMMs of CUDA 13 need",
                      version_text(version));
  }
  MINUET_TRY(check(driver_, driver_.cuStreamCreate(&copies_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  info_.name = "cuda:" + std::to_string(ordinal);
  info_.description = name;
  info_.arch = arch_name(major, minor);
  info_.driver = version_text(version);
  info_.memory_bytes = static_cast<i64>(bytes);
  info_.compute_capability = std::to_string(major) + "." + std::to_string(minor);
  info_.multiprocessors = multiprocessors_;
  info_.l2_bytes = l2_bytes;
  if (major < 8) {
    return make_error(StatusCode::Unavailable,
                      "{0} has compute capability {1}.{2}; Minuet needs 8.0 or newer", info_.description,
                      major, minor);
  }
  return llvm::Error::success();
}

CudaDevice::~CudaDevice() {
  // At process exit the driver may already be gone, so the destructor ignores every result.
  {
    const ContextScope scope(driver_, context_);
    matmuls_.reset();
    modules_.unload();
    if (allocator_.has_blocks()) {
      const CaptureScope alone(driver_);
      // Only release_on() leaves memory here that work may still use, and its stream may be gone by now.
      static_cast<void>(driver_.cuCtxSynchronize());
      allocator_.release_all();
    }
    if (copies_) static_cast<void>(driver_.cuStreamDestroy(copies_));
  }
  static_cast<void>(driver_.cuDevicePrimaryCtxRelease(device_));
}

bool CudaDevice::is_captured(void* stream) const {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  return stream && driver_.cuStreamIsCapturing(static_cast<CUstream>(stream), &capture) == CUDA_SUCCESS &&
         capture != CU_STREAM_CAPTURE_STATUS_NONE;
}

llvm::Expected<void*> CudaDevice::allocate_on(void* stream, i64 bytes) {
  const ContextScope scope(driver_, context_);
  const CaptureScope alone(driver_);
  if (allocator_) {
    if (!is_captured(stream)) return allocator_.allocate(bytes, stream);
    return make_error(StatusCode::FailedPrecondition,
                      "the stream is being captured, so the caller's allocator is not asked for memory: make "
                      "sets, maps and executions before the capture");
  }
  CUdeviceptr memory = 0;
  const CUresult result = driver_.cuMemAlloc(&memory, static_cast<std::size_t>(bytes > 0 ? bytes : 1));
  if (result == CUDA_SUCCESS) return reinterpret_cast<void*>(memory);
  return driver_error(driver_, result, llvm::formatv("allocating {0} bytes on {1}", bytes, info_.name).str());
}

void CudaDevice::release_on(void* stream, void* memory) {
  const ContextScope scope(driver_, context_);
  const CaptureScope alone(driver_);
  if (allocator_) {
    if (!is_captured(stream)) allocator_.release(memory, stream);
    return;
  }
  if (memory) static_cast<void>(driver_.cuMemFree(device_address(memory)));
}

llvm::Error CudaDevice::upload(void* target, const void* host, i64 bytes) {
  if (bytes <= 0) return llvm::Error::success();
  const ContextScope scope(driver_, context_);
  const CaptureScope alone(driver_);
  MINUET_TRY(
      check(driver_,
            driver_.cuMemcpyHtoDAsync(device_address(target), host, static_cast<std::size_t>(bytes), copies_),
            "copying to the device"));
  return check(driver_, driver_.cuStreamSynchronize(copies_), "waiting for a copy to the device");
}

llvm::Error CudaDevice::clear(void* target, i64 bytes) {
  if (bytes <= 0) return llvm::Error::success();
  const ContextScope scope(driver_, context_);
  const CaptureScope alone(driver_);
  MINUET_TRY(check(driver_,
                   driver_.cuMemsetD32Async(device_address(target), 0,
                                            static_cast<std::size_t>(bytes) / sizeof(u32), copies_),
                   "clearing device memory"));
  return check(driver_, driver_.cuStreamSynchronize(copies_), "waiting for device memory to be cleared");
}

llvm::Error CudaDevice::download(void* host, const void* source, i64 bytes) {
  if (bytes <= 0) return llvm::Error::success();
  const ContextScope scope(driver_, context_);
  const CaptureScope alone(driver_);
  MINUET_TRY(
      check(driver_,
            driver_.cuMemcpyDtoHAsync(host, device_address(source), static_cast<std::size_t>(bytes), copies_),
            "copying from the device"));
  return check(driver_, driver_.cuStreamSynchronize(copies_), "waiting for a copy from the device");
}

llvm::Error CudaDevice::synchronize(void* stream) {
  const ContextScope scope(driver_, context_);
  const CaptureScope alone(driver_);
  return check(driver_, driver_.cuStreamSynchronize(static_cast<CUstream>(stream)), "cuStreamSynchronize");
}

llvm::Error CudaDevice::load(const std::vector<std::shared_ptr<const Binary>>& binaries,
                             const Reload& reload) {
  const ContextScope scope(driver_, context_);
  return modules_.load(binaries, reload);
}

namespace {

/// Returns the row of the table of op families for the candidate's op, or null if the row has no function
/// warm_up.
const CudaFamily* find_warm_up(const Candidate& candidate) {
  const CudaFamily* const family = find_family(cuda_families(), candidate.choice.kind());
  return family != nullptr && family->warm_up != nullptr ? family : nullptr;
}

}  // namespace

bool CudaDevice::needs_warm_up(llvm::ArrayRef<Candidate> candidates) const {
  return llvm::any_of(candidates, find_warm_up);
}

llvm::Error CudaDevice::warm_up(llvm::ArrayRef<Candidate> candidates) {
  // Most candidate configurations of a tuned layer need the same warm-up, so each distinct warm-up runs only
  // once.
  std::vector<const Candidate*> done;
  for (const Candidate& candidate : candidates) {
    const CudaFamily* const family = find_warm_up(candidate);
    const auto is_alike = [&](const Candidate* other) {
      return &other->choice.kind() == &candidate.choice.kind() &&
             family->is_same_warm_up(other->choice, candidate.choice);
    };
    if (family == nullptr || llvm::any_of(done, is_alike)) continue;
    MINUET_TRY(family->warm_up(*this, candidate.choice));
    done.push_back(&candidate);
  }
  return llvm::Error::success();
}

llvm::Expected<CUkernel> CudaDevice::find_kernel(const std::string& name, std::size_t params_bytes,
                                                 KernelNeeds& needs) {
  MINUET_ASSIGN(const LoadedKernel loaded, modules_.find(name, params_bytes, needs));
  needs.programmatic = needs.programmatic && loaded.capability >= kLeastProgrammatic;
  return loaded.library->kernel();
}

llvm::Expected<Matmuls*> CudaDevice::matmuls() {
  const ContextScope scope(driver_, context_);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!matmuls_) {
    MINUET_ASSIGN(matmuls_, Matmuls::create(cublaslt_));
  }
  return matmuls_.get();
}

llvm::Expected<std::unique_ptr<Engine>> CudaDevice::create_engine(const EngineChoice& choice,
                                                                  std::shared_ptr<EngineShare> share) {
  // `share` is null or was made by create_share(), so the cast is valid.
  return CudaEngine::create(shared_from_this(), choice, {}, std::static_pointer_cast<SideStreams>(share));
}

llvm::Expected<std::unique_ptr<Engine>> CudaDevice::create_engine(const EngineChoice& choice,
                                                                  CudaEngineOptions options) {
  return CudaEngine::create(shared_from_this(), choice, options, nullptr);
}

llvm::Expected<std::shared_ptr<EngineShare>> CudaDevice::create_share() {
  MINUET_ASSIGN(std::shared_ptr<SideStreams> made, SideStreams::create(shared_from_this()));
  return made;
}

llvm::Expected<std::shared_ptr<Device>> open_cuda_device(int ordinal, std::string cublaslt,
                                                         const AllocatorFunctions& allocator) {
  MINUET_ASSIGN(std::shared_ptr<Device> device, CudaDevice::open(ordinal, std::move(cublaslt), allocator));
  return device;
}

llvm::Expected<CudaSystem> cuda_system() {
  MINUET_ASSIGN(const Driver* driver, Driver::get());
  CudaSystem system;
  int version = 0;
  MINUET_TRY(check(*driver, driver->cuDriverGetVersion(&version), "cuDriverGetVersion"));
  MINUET_TRY(check(*driver, driver->cuDeviceGetCount(&system.devices), "cuDeviceGetCount"));
  system.driver = version_text(version);
  return system;
}

}  // namespace minuet
