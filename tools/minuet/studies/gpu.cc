#include "tools/minuet/studies/gpu.h"

#include <cuda.h>
#include <dlfcn.h>

#include <vector>

#include "tools/minuet/error.h"

namespace minuet::tool {

// As cuda.h spells them: some names are macros for a version.
#define MINUET_STUDY_FUNCTIONS(row)                                                                    \
  row(cuGetErrorName) row(cuDeviceGet) row(cuDeviceGetAttribute) row(cuDevicePrimaryCtxRetain)         \
      row(cuDevicePrimaryCtxRelease) row(cuCtxPushCurrent) row(cuCtxPopCurrent) row(cuLibraryLoadData) \
          row(cuLibraryUnload) row(cuLibraryGetKernel) row(cuLaunchKernelEx) row(cuMemsetD32Async)
#define MINUET_STUDY_TEXT(name) #name
#define MINUET_STUDY_EXPANDED(name) MINUET_STUDY_TEXT(name)

struct Gpu::State {
  struct {
#define MINUET_ROW(name) decltype(&::name) name = nullptr;
    MINUET_STUDY_FUNCTIONS(MINUET_ROW)
#undef MINUET_ROW
  } driver;
  CUdevice device = 0;
  CUcontext context = nullptr;
  bool is_current = false;
  std::vector<CUlibrary> libraries;

  llvm::Error check(CUresult result, const char* attempt) const {
    if (result == CUDA_SUCCESS) return llvm::Error::success();
    const char* name = nullptr;
    driver.cuGetErrorName(result, &name);
    return broken(std::string(attempt) + ": " + (name ? name : "an error without a name"));
  }
  /// The library has opened the driver already, for its device.
  llvm::Error open(const DeviceFacts& facts) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return bad_input("the CUDA driver does not open: {0}", dlerror());
#define MINUET_ROW(name)                                                                          \
  driver.name = reinterpret_cast<decltype(&::name)>(dlsym(library, MINUET_STUDY_EXPANDED(name))); \
  if (!driver.name) return bad_input("the CUDA driver has no {0}", MINUET_STUDY_EXPANDED(name));
    MINUET_STUDY_FUNCTIONS(MINUET_ROW)
#undef MINUET_ROW
    int ordinal = 0;
    if (llvm::StringRef(facts.name).substr(5).getAsInteger(10, ordinal))
      return bad_input("'{0}' is no GPU", facts.name);
    MINUET_TRY(check(driver.cuDeviceGet(&device, ordinal), "the GPU is not there"));
    MINUET_TRY(check(driver.cuDevicePrimaryCtxRetain(&context, device), "no context on the GPU"));
    MINUET_TRY(check(driver.cuCtxPushCurrent(context), "the GPU's context cannot be current"));
    is_current = true;
    return llvm::Error::success();
  }
  llvm::Error attribute(CUdevice_attribute which, int64_t& value) const {
    int number = 0;
    MINUET_TRY(check(driver.cuDeviceGetAttribute(&number, which, device), "no attribute of the GPU"));
    value = number;
    return llvm::Error::success();
  }
  ~State() {
    if (!context) return;
    for (CUlibrary library : libraries) static_cast<void>(driver.cuLibraryUnload(library));
    CUcontext current = nullptr;
    if (is_current) static_cast<void>(driver.cuCtxPopCurrent(&current));
    static_cast<void>(driver.cuDevicePrimaryCtxRelease(device));
  }
};

Gpu::Gpu(std::unique_ptr<State> state) : state_(std::move(state)) {}
Gpu::~Gpu() = default;

llvm::Expected<std::unique_ptr<Gpu>> Gpu::open(const DeviceFacts& facts) {
  auto state = std::make_unique<State>();
  MINUET_TRY(state->open(facts));
  std::unique_ptr<Gpu> gpu(new Gpu(std::move(state)));
  MINUET_TRY(gpu->state_->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu->multiprocessors_));
  MINUET_TRY(gpu->state_->attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, gpu->l2_bytes_));
  return gpu;
}

llvm::Expected<GpuKernel> Gpu::load(const std::string& cubin, const std::string& symbol) {
  CUlibrary library = nullptr;
  const auto& driver = state_->driver;
  MINUET_TRY(state_->check(
      driver.cuLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "a kernel does not load"));
  state_->libraries.push_back(library);
  CUkernel kernel = nullptr;
  MINUET_TRY(
      state_->check(driver.cuLibraryGetKernel(&kernel, library, symbol.c_str()), "a kernel is not there"));
  return GpuKernel{kernel};
}

llvm::Error Gpu::launch(const GpuKernel& kernel, int64_t blocks, void* params) const {
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(blocks);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(kernel.threads);
  config.blockDimY = config.blockDimZ = 1;
  void* arguments[] = {params};
  return state_->check(
      state_->driver.cuLaunchKernelEx(&config, static_cast<CUfunction>(kernel.kernel), arguments, nullptr),
      "a kernel does not launch");
}

llvm::Error Gpu::fill_words(void* memory, uint32_t value, int64_t words) const {
  return state_->check(state_->driver.cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(memory), value,
                                                       static_cast<size_t>(words), nullptr),
                       "a fill");
}

}  // namespace minuet::tool
