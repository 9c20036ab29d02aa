#include "runtime/cuda/module.h"

namespace minuet {

llvm::Error ModuleSet::load(const std::vector<std::shared_ptr<const Binary>>& binaries) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::shared_ptr<const Binary>& binary : binaries) {
    if (kernels_.count(binary->display_name)) continue;
    llvm::Expected<LoadedKernel> kernel = load_one(*binary);
    if (!kernel) return annotate(kernel.takeError(), "loading " + binary->display_name);
    kernels_.emplace(binary->display_name, *kernel);
  }
  return llvm::Error::success();
}

llvm::Expected<LoadedKernel> ModuleSet::load_one(const Binary& binary) const {
  LoadedKernel loaded;
  MINUET_TRY(check(driver_,
                   driver_.cuLibraryLoadData(&loaded.library, binary.cubin.data(), nullptr, nullptr, 0,
                                             nullptr, nullptr, 0),
                   "cuLibraryLoadData"));
  auto finish = [&]() -> llvm::Error {
    CUkernel kernel = nullptr;
    MINUET_TRY(check(driver_,
                     driver_.cuLibraryGetKernel(&kernel, loaded.library, binary.lowered_name.c_str()),
                     "cuLibraryGetKernel"));
    MINUET_TRY(check(driver_, driver_.cuKernelGetFunction(&loaded.function, kernel), "cuKernelGetFunction"));
    if (driver_.cuFuncLoad) MINUET_TRY(check(driver_, driver_.cuFuncLoad(loaded.function), "cuFuncLoad"));
    return check(driver_,
                 driver_.cuKernelGetAttribute(&loaded.max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                              kernel, device_),
                 "cuKernelGetAttribute");
  };
  if (llvm::Error error = finish()) {
    static_cast<void>(driver_.cuLibraryUnload(loaded.library));
    return error;
  }
  loaded.params_bytes = binary.params_bytes;
  return loaded;
}

llvm::Expected<LoadedKernel> ModuleSet::find(const std::string& display_name, std::size_t params_bytes,
                                             int threads) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = kernels_.find(display_name);
  if (entry == kernels_.end()) {
    return make_error(StatusCode::FailedPrecondition,
                      "kernel {0} is not loaded: compile the plan for this device's architecture and load it",
                      display_name);
  }
  const LoadedKernel& kernel = entry->second;
  if (kernel.params_bytes != 0 && static_cast<std::size_t>(kernel.params_bytes) != params_bytes) {
    return make_error(StatusCode::Internal,
                      "kernel {0} takes {1} bytes of parameters, the library passes {2}", display_name,
                      kernel.params_bytes, params_bytes);
  }
  if (threads > kernel.max_threads) {
    return make_error(StatusCode::Internal,
                      "kernel {0} can run {1} threads a block on this device, its Spec says {2}",
                      display_name, kernel.max_threads, threads);
  }
  return kernel;
}

void ModuleSet::unload() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& entry : kernels_) static_cast<void>(driver_.cuLibraryUnload(entry.second.library));
  kernels_.clear();
}

}  // namespace minuet
