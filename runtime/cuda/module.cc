#include "runtime/cuda/module.h"

#include "codegen/base/arch.h"
#include "codegen/base/sha256.h"

namespace minuet {
namespace {

/// Returns true if the driver rejects the image, so that another image may be tried. This includes
/// INVALID_VALUE and NOT_FOUND, because drivers return them for damaged images. Here they can have no other
/// cause, because no argument is null and the kernel's name came from the compiler.
bool is_refusal(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:    // The image is PTX, and the driver cannot compile it.
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:  // The environment variable CUDA_DISABLE_PTX_JIT is set.
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_NOT_SUPPORTED:  // The image has code for another GPU, but its ELF flags name this one.
      return true;
    default:
      return false;
  }
}

}  // namespace

llvm::Error ModuleSet::load(const std::vector<std::shared_ptr<const Binary>>& binaries,
                            const Reload& reload) {
  for (const std::shared_ptr<const Binary>& binary : binaries) {
    if (has(binary->display_name)) continue;
    if (llvm::Error error = add(*binary, reload)) {
      return annotate(std::move(error), "loading " + binary->display_name);
    }
  }
  return llvm::Error::success();
}

bool ModuleSet::has(const std::string& display_name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return kernels_.count(display_name) > 0;
}

llvm::Error ModuleSet::add(const Binary& binary, const Reload& reload) {
  LoadedKernel loaded;
  LoadCall call = load_library(binary, loaded);
  const bool refused = is_refusal(call.result);
  if (refused && reload) {
    // The cached binary was damaged or made for another GPU. The replacement is compiled anew on this
    // machine.
    MINUET_ASSIGN(const std::shared_ptr<const Binary> replacement, reload(binary));
    call = load_library(*replacement, loaded);
  }
  if (!call) {
    llvm::Error error = driver_error(driver_, call.result, call.name);
    if (!refused || !is_refusal(call.result)) return error;
    return make_error(StatusCode::FailedPrecondition,
                      "{0}; the driver refuses the kernel{1}: use a driver at least as new as the compiler, "
                      "and an architecture that the GPU has",
                      take_status(std::move(error)).message(),
                      reload ? ", even after it was compiled again" : "");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  // If another thread has added the kernel first, emplace() keeps that one.
  kernels_.emplace(binary.display_name, std::move(loaded));
  return llvm::Error::success();
}

LoadCall ModuleSet::load_library(const Binary& binary, LoadedKernel& loaded) const {
  if (const LoadCall call = registry_.open(driver_, binary, loaded.library); !call) return call;
  CUkernel kernel = loaded.library->kernel();
  // The function is requested only to load the code into this context now; launches use the kernel.
  CUfunction function = nullptr;
  const CUresult get = driver_.cuKernelGetFunction(&function, kernel);
  if (get != CUDA_SUCCESS) return {get, "cuKernelGetFunction"};
  const CUresult load = driver_.cuFuncLoad(function);
  if (load != CUDA_SUCCESS) return {load, "cuFuncLoad"};
  const CUresult attribute = driver_.cuKernelGetAttribute(
      &loaded.max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, device_);
  if (attribute != CUDA_SUCCESS) return {attribute, "cuKernelGetAttribute"};
  loaded.params_bytes = binary.params_bytes;
  loaded.capability = capability(binary.arch);
  return {};
}

llvm::Expected<LoadedKernel> ModuleSet::find(const std::string& display_name, std::size_t params_bytes,
                                             const KernelNeeds& needs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = kernels_.find(display_name);
  if (entry == kernels_.end()) {
    return make_error(StatusCode::FailedPrecondition,
                      "kernel {0} is not loaded: compile the plan for this device's architecture and load it",
                      display_name);
  }
  LoadedKernel& kernel = entry->second;
  if (kernel.params_bytes != 0 && static_cast<std::size_t>(kernel.params_bytes) != params_bytes) {
    return make_error(StatusCode::Internal,
                      "kernel {0} takes {1} bytes of parameters, but the library passes {2}", display_name,
                      kernel.params_bytes, params_bytes);
  }
  if (needs.threads > kernel.max_threads) {
    return make_error(StatusCode::Internal,
                      "kernel {0} can run at most {1} threads per block on this device, but it needs {2}",
                      display_name, kernel.max_threads, needs.threads);
  }
  MINUET_TRY(allow_shared(display_name, kernel, needs.dynamic_shared_bytes));
  return kernel;
}

/// Asks the driver to allow `bytes` bytes of dynamic shared memory. A kernel with more than 48 KB of static
/// and dynamic shared memory needs this once per device.
llvm::Error ModuleSet::allow_shared(const std::string& display_name, LoadedKernel& kernel, i32 bytes) const {
  if (bytes <= kernel.dynamic_shared_bytes) return llvm::Error::success();
  const CUresult result = driver_.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes,
                                                       kernel.library->kernel(), device_);
  if (result != CUDA_SUCCESS) {
    return driver_error(
        driver_, result,
        llvm::formatv("giving kernel {0} {1} bytes of shared memory per block", display_name, bytes).str());
  }
  kernel.dynamic_shared_bytes = bytes;
  return llvm::Error::success();
}

void ModuleSet::unload() {
  std::map<std::string, LoadedKernel> kernels;
  const std::lock_guard<std::mutex> lock(mutex_);
  kernels_.swap(kernels);
}

// ---- The code below manages the loaded binaries that all devices of the process share. -----------------

namespace {

/// Returns a text that identifies a binary. It depends on the bytes too, because a recompiled kernel has the
/// same name and architecture as the one that the driver refused.
std::string identity(const Binary& binary) {
  return FieldHasher()
      .add("name", binary.display_name)
      .add("arch", binary.arch)
      .add("symbol", binary.lowered_name)
      .add("cubin", binary.cubin)
      .hex();
}

}  // namespace

KernelLibrary::~KernelLibrary() {
  // At process exit the driver and the library may already be gone (CUDA_ERROR_DEINITIALIZED), so the result
  // is ignored.
  static_cast<void>(driver_.cuLibraryUnload(library_));
}

LibraryRegistry& LibraryRegistry::process() {
  static auto* const registry = new LibraryRegistry;
  return *registry;
}

LoadCall LibraryRegistry::open(const Driver& driver, const Binary& binary,
                               std::shared_ptr<const KernelLibrary>& library) {
  const std::string key = identity(binary);
  // The lock is held while the driver loads, so that a second device waits for the first one's library
  // instead of loading its own. The wait is short, because no code is loaded into a context here.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = libraries_.find(key);
  if (known != libraries_.end() && (library = known->second.lock())) return {};

  // If the binary is PTX, this call compiles it. PTX must end in '\0', which std::string::data() guarantees.
  CUlibrary loaded = nullptr;
  CUkernel kernel = nullptr;
  const CUresult load =
      driver.cuLibraryLoadData(&loaded, binary.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (load != CUDA_SUCCESS) return {load, "cuLibraryLoadData"};
  const CUresult get = driver.cuLibraryGetKernel(&kernel, loaded, binary.lowered_name.c_str());
  if (get != CUDA_SUCCESS) {
    static_cast<void>(driver.cuLibraryUnload(loaded));
    return {get, "cuLibraryGetKernel"};
  }
  library = std::make_shared<const KernelLibrary>(driver, loaded, kernel);
  std::erase_if(libraries_, [](const auto& entry) { return entry.second.expired(); });
  libraries_[key] = library;
  return {};
}

std::size_t LibraryRegistry::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::size_t used = 0;
  for (const auto& entry : libraries_) used += entry.second.expired() ? 0 : 1;
  return used;
}

}  // namespace minuet
