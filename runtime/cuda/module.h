// The loaded kernels of one device: cubin -> CUlibrary -> CUkernel. A device loads each display name once; a
// process loads each cubin once, for all devices.
//
// A CUlibrary and its CUkernel belong to no context. The driver loads the code into a context when a function
// of it is requested there, also after the context was destroyed and created again.
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

/// One loaded cubin and its kernel. Its last user's release unloads it.
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

/// The result of a driver call during a load. It is kept with the call's name, because some failures can be
/// remedied.
struct LoadCall {
  CUresult result = CUDA_SUCCESS;
  const char* name = "";
  explicit operator bool() const { return result == CUDA_SUCCESS; }
};

/// The libraries in use. Keeps none of them alive. Thread-safe.
class LibraryRegistry {
 public:
  LibraryRegistry() = default;
  LibraryRegistry(const LibraryRegistry&) = delete;
  LibraryRegistry& operator=(const LibraryRegistry&) = delete;
  /// Returns the registry of this process. It is never destroyed, because devices may be closed while the
  /// process exits.
  static LibraryRegistry& process();

  /// Returns the library of exactly these bytes and loads it if necessary. Needs no current context.
  LoadCall open(const Driver& driver, const Binary& binary, std::shared_ptr<const KernelLibrary>& library);
  /// Returns the number of libraries in use.
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const KernelLibrary>> libraries_;
};

/// A kernel ready to launch on its device.
struct LoadedKernel {
  std::shared_ptr<const KernelLibrary> library;
  int params_bytes = 0;          // 0 if the compiler did not report it
  int max_threads = 0;           // per block, according to the driver
  int dynamic_shared_bytes = 0;  // per block, as the driver was asked to allow
  int capability = 0;            // of the code; may be older than the device's
};

/// A kernel with the type of its only argument and its launch requirements. It outlives every engine of the
/// device.
template <class Params>
struct Kernel {
  CUkernel kernel = nullptr;
  KernelNeeds needs;
};

/// Thread-safe. The device's context must be current in load().
class ModuleSet {
 public:
  ModuleSet(const Driver& driver, CUdevice device, LibraryRegistry& registry = LibraryRegistry::process())
      : driver_(driver), device_(device), registry_(registry) {}
  ModuleSet(const ModuleSet&) = delete;
  ModuleSet& operator=(const ModuleSet&) = delete;

  /// Loads the binaries that are not loaded yet, code included, because the first launch may happen under
  /// stream capture. If the driver refuses a binary and `reload` is set, its replacement is tried once.
  llvm::Error load(const std::vector<std::shared_ptr<const Binary>>& binaries, const Reload& reload);
  /// Returns the kernel and allows it the shared memory that it needs. Returns FailedPrecondition if load()
  /// has not loaded it.
  llvm::Expected<LoadedKernel> find(const std::string& display_name, std::size_t params_bytes,
                                    const KernelNeeds& needs);
  void unload();

 private:
  bool has(const std::string& display_name) const;
  llvm::Error add(const Binary& binary, const Reload& reload);
  LoadCall load_library(const Binary& binary, LoadedKernel& loaded) const;
  llvm::Error allow_shared(const std::string& display_name, LoadedKernel& kernel, i32 bytes) const;

  const Driver& driver_;
  CUdevice device_;
  LibraryRegistry& registry_;
  mutable std::mutex mutex_;  // guards kernels_; never held while loading or compiling
  std::map<std::string, LoadedKernel> kernels_;
};

}  // namespace minuet
