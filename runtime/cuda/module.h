// Loaded kernels of one device: cubin -> CUlibrary -> CUkernel, each display name once; each cubin once a
// process, whatever the number of devices (R25).
//
// A CUlibrary and its CUkernel belong to no context: the driver brings the code into a context when a
// function of it is asked for there, also into one that was destroyed and made again.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/compile/compiler.h"
#include "runtime/cuda/driver.h"
#include "runtime/engine/device.h"

namespace minuet {

/// One loaded cubin and its kernel; unloaded with its last user.
class KernelLibrary {
 public:
  KernelLibrary(const Driver& driver, CUlibrary library, CUkernel kernel)
      : driver_(driver), library_(library), kernel_(kernel) {}
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;
  ~KernelLibrary();
  CUkernel kernel() const { return kernel_; }

 private:
  const Driver& driver_;
  CUlibrary library_;
  CUkernel kernel_;
};

/// A driver call of a load. Its result is kept beside its name: some failures have a remedy.
struct LoadCall {
  CUresult result = CUDA_SUCCESS;
  const char* name = "";
  explicit operator bool() const { return result == CUDA_SUCCESS; }
};

/// Thread-safe. Knows what is loaded, and keeps nothing alive.
class LibraryRegistry {
 public:
  LibraryRegistry() = default;
  LibraryRegistry(const LibraryRegistry&) = delete;
  LibraryRegistry& operator=(const LibraryRegistry&) = delete;
  /// The one of this process; never destroyed, for devices may be closed while the process ends (R27).
  static LibraryRegistry& process();

  /// The library of these very bytes, loaded where it is not. Needs no current context.
  LoadCall open(const Driver& driver, const Binary& binary, std::shared_ptr<const KernelLibrary>& library);
  /// Libraries in use now.
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const KernelLibrary>> libraries_;
};

/// A kernel ready to launch on its device.
struct LoadedKernel {
  std::shared_ptr<const KernelLibrary> library;
  int params_bytes = 0;          // 0: the compiler did not tell
  int max_threads = 0;           // per block, as the driver sees it
  int dynamic_shared_bytes = 0;  // per block, that the driver was asked to allow
  int capability = 0;            // of the code, which may be older than the device's
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
  llvm::Error add(const Binary& binary, const Reload& reload);
  LoadCall bring_in(const Binary& binary, LoadedKernel& loaded) const;
  llvm::Error allow_shared(const std::string& display_name, LoadedKernel& kernel, i32 bytes) const;

  const Driver& driver_;
  CUdevice device_;
  LibraryRegistry& registry_;
  mutable std::mutex mutex_;  // of the map; never held while loading or compiling
  std::map<std::string, LoadedKernel> kernels_;
};

}  // namespace minuet
