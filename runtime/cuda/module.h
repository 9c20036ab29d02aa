// Loaded kernels of one device: cubin -> CUlibrary -> CUkernel, each display name once.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/compiler.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/library_registry.h"
#include "runtime/device.h"

namespace minuet {

/// A kernel ready to launch on its device.
struct LoadedKernel {
  std::shared_ptr<const KernelLibrary> library;
  int params_bytes = 0;          // 0: the compiler did not tell
  int max_threads = 0;           // per block, as the driver sees it
  int dynamic_shared_bytes = 0;  // per block, that the driver was asked to allow
};

/// A kernel with the type of its one argument, and what a launch says of it; it outlives every engine of the
/// device.
template <class Params>
struct Kernel {
  CUkernel kernel = nullptr;
  KernelNeeds needs;
};

/// Thread-safe. The device's context is current in load().
class ModuleSet {
 public:
  ModuleSet(const Driver& driver, CUdevice device, LibraryRegistry& registry = LibraryRegistry::process())
      : driver_(driver), device_(device), registry_(registry) {}
  ModuleSet(const ModuleSet&) = delete;
  ModuleSet& operator=(const ModuleSet&) = delete;

  /// Loads what is not loaded yet, code included: the first launch may happen under stream capture (R26).
  /// A binary that the driver refuses is asked for once more from `reload`, where there is one (R28).
  llvm::Error load(const std::vector<std::shared_ptr<const Binary>>& binaries, const Reload& reload);
  /// The kernel, allowed what it needs on this device. FailedPrecondition where load() has not seen it.
  llvm::Expected<LoadedKernel> find(const std::string& display_name, std::size_t params_bytes,
                                    const KernelNeeds& needs);
  void unload();

 private:
  bool has(const std::string& display_name) const;
  llvm::Error load_one(const Binary& binary, const Reload& reload);
  LoadCall try_load(const Binary& binary, LoadedKernel& loaded) const;
  llvm::Error allow_shared(const std::string& display_name, LoadedKernel& kernel, i32 bytes) const;

  const Driver& driver_;
  CUdevice device_;
  LibraryRegistry& registry_;
  mutable std::mutex mutex_;  // of the map; never held while loading or compiling
  std::map<std::string, LoadedKernel> kernels_;
};

}  // namespace minuet
