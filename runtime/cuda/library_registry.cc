#include "runtime/cuda/library_registry.h"

#include "codegen/keys.h"

namespace minuet {
namespace {

/// Names the bytes too: a kernel that was compiled anew has the name and architecture of the refused one.
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
  // At process exit the driver may be gone (CUDA_ERROR_DEINITIALIZED), and the library with it.
  static_cast<void>(driver_.cuLibraryUnload(library_));
}

LibraryRegistry& LibraryRegistry::process() {
  static auto* const registry = new LibraryRegistry;
  return *registry;
}

LoadCall LibraryRegistry::load(const Driver& driver, const Binary& binary,
                               std::shared_ptr<const KernelLibrary>& library) {
  const std::string key = identity(binary);
  // Held while the driver loads: a second device waits for the first one's library instead of making its
  // own. Code is not brought into a context here, so it is no long wait.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = libraries_.find(key);
  if (known != libraries_.end() && (library = known->second.lock())) return {};

  // PTX is compiled here; it must end in '\0', as data() does.
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
