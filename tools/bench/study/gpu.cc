#include "tools/bench/study/gpu.h"

#include "tools/minuet/base/error.h"

namespace minuet::tool {

Gpu::~Gpu() {
  for (CUlibrary library : libraries_) static_cast<void>(context_->driver().cuLibraryUnload(library));
  for (CUevent event : {start_, end_}) {
    if (event) static_cast<void>(context_->driver().cuEventDestroy(event));
  }
}

llvm::Error Gpu::read(CUdevice_attribute attribute, int64_t& value) const {
  int number = 0;
  MINUET_TRY(context_->check(context_->driver().cuDeviceGetAttribute(&number, attribute, context_->device()),
                             "cannot read an attribute of the GPU"));
  value = number;
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<Gpu>> Gpu::open(const DeviceFacts& facts) {
  MINUET_ASSIGN(std::unique_ptr<CudaContext> context, CudaContext::open(facts));
  std::unique_ptr<Gpu> gpu(new Gpu(std::move(context)));
  MINUET_TRY(gpu->read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu->multiprocessors_));
  MINUET_TRY(gpu->read(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, gpu->l2_bytes_));
  for (CUevent* const event : {&gpu->start_, &gpu->end_}) {
    MINUET_TRY(gpu->context_->check(gpu->context_->driver().cuEventCreate(event, CU_EVENT_DEFAULT),
                                    "cannot create an event"));
  }
  return gpu;
}

llvm::Expected<GpuKernel> Gpu::load(const std::string& cubin, const std::string& symbol) {
  CUlibrary library = nullptr;
  const CudaContext::Driver& driver = context_->driver();
  MINUET_TRY(context_->check(
      driver.cuLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "cannot load a kernel"));
  libraries_.push_back(library);
  CUkernel kernel = nullptr;
  MINUET_TRY(context_->check(driver.cuLibraryGetKernel(&kernel, library, symbol.c_str()),
                             "cannot find a kernel in its cubin"));
  return GpuKernel{kernel};
}

llvm::Error Gpu::launch(const GpuKernel& kernel, int64_t blocks, void* params) const {
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(blocks);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(kernel.threads);
  config.blockDimY = config.blockDimZ = 1;
  void* arguments[] = {params};
  return context_->check(context_->driver().cuLaunchKernelEx(&config, static_cast<CUfunction>(kernel.kernel),
                                                             arguments, nullptr),
                         "cannot launch a kernel");
}

llvm::Error Gpu::fill_words(void* memory, uint32_t value, int64_t words) const {
  return context_->check(context_->driver().cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(memory), value,
                                                             static_cast<size_t>(words), nullptr),
                         "cannot fill memory of the GPU");
}

llvm::Expected<double> Gpu::milliseconds(llvm::function_ref<llvm::Error()> enqueue) const {
  const CudaContext::Driver& driver = context_->driver();
  const auto record = [&](CUevent event) {
    return context_->check(driver.cuEventRecord(event, nullptr), "cannot record an event");
  };
  MINUET_TRY(record(start_));
  MINUET_TRY(enqueue());
  MINUET_TRY(record(end_));
  MINUET_TRY(context_->check(driver.cuEventSynchronize(end_), "cannot wait for an event"));
  float elapsed = 0;
  MINUET_TRY(context_->check(driver.cuEventElapsedTime(&elapsed, start_, end_),
                             "cannot read the time between two events"));
  return double{elapsed};
}

}  // namespace minuet::tool
