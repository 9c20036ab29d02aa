#include "tools/bench/study/gpu.h"

#include <vector>

#include "tools/minuet/base/error.h"
#include "tools/minuet/library/cuda_context.h"

namespace minuet::tool {

struct Gpu::State {
  explicit State(std::unique_ptr<CudaContext> of) : context(std::move(of)) {}
  ~State() {
    for (CUlibrary library : libraries) static_cast<void>(context->driver().cuLibraryUnload(library));
  }
  llvm::Error attribute(CUdevice_attribute which, int64_t& value) const {
    int number = 0;
    MINUET_TRY(context->check(context->driver().cuDeviceGetAttribute(&number, which, context->device()),
                              "no attribute of the GPU"));
    value = number;
    return llvm::Error::success();
  }
  const std::unique_ptr<CudaContext> context;
  std::vector<CUlibrary> libraries;
};

Gpu::Gpu(std::unique_ptr<State> state) : state_(std::move(state)) {}
Gpu::~Gpu() = default;

llvm::Expected<std::unique_ptr<Gpu>> Gpu::open(const DeviceFacts& facts) {
  MINUET_ASSIGN(std::unique_ptr<CudaContext> context, CudaContext::open(facts));
  std::unique_ptr<Gpu> gpu(new Gpu(std::make_unique<State>(std::move(context))));
  MINUET_TRY(gpu->state_->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu->multiprocessors_));
  MINUET_TRY(gpu->state_->attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, gpu->l2_bytes_));
  return gpu;
}

llvm::Expected<GpuKernel> Gpu::load(const std::string& cubin, const std::string& symbol) {
  CUlibrary library = nullptr;
  const CudaContext::Driver& driver = state_->context->driver();
  MINUET_TRY(state_->context->check(
      driver.cuLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "a kernel does not load"));
  state_->libraries.push_back(library);
  CUkernel kernel = nullptr;
  MINUET_TRY(state_->context->check(driver.cuLibraryGetKernel(&kernel, library, symbol.c_str()),
                                    "a kernel is not there"));
  return GpuKernel{kernel};
}

llvm::Error Gpu::launch(const GpuKernel& kernel, int64_t blocks, void* params) const {
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(blocks);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(kernel.threads);
  config.blockDimY = config.blockDimZ = 1;
  void* arguments[] = {params};
  return state_->context->check(state_->context->driver().cuLaunchKernelEx(
                                    &config, static_cast<CUfunction>(kernel.kernel), arguments, nullptr),
                                "a kernel does not launch");
}

llvm::Error Gpu::fill_words(void* memory, uint32_t value, int64_t words) const {
  return state_->context->check(
      state_->context->driver().cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(memory), value,
                                                 static_cast<size_t>(words), nullptr),
      "a fill");
}

}  // namespace minuet::tool
