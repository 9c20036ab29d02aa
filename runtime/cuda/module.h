// Loads the kernels of one device. A cubin becomes a CUlibrary, which holds one CUkernel. A device loads each
// display name once, and a process loads each cubin once for all devices.
//
// A CUlibrary and its CUkernel belong to no context. When a context requests a function of the library, the
// driver loads the code into that context, even if the context was destroyed and created again.
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

/// Owns one loaded cubin and its kernel. The destructor unloads the cubin.
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

/// Holds the result and the name of a driver call during a load. It is not an error yet, because the caller
/// can remedy some failures.
struct LoadCall {
  CUresult result = CUDA_SUCCESS;
  const char* name = "";
  explicit operator bool() const { return result == CUDA_SUCCESS; }
};

/// Lists the loaded libraries that are in use, without keeping any of them alive. The class is thread-safe.
class LibraryRegistry {
 public:
  LibraryRegistry() = default;
  LibraryRegistry(const LibraryRegistry&) = delete;
  LibraryRegistry& operator=(const LibraryRegistry&) = delete;
  /// Returns the registry of this process. It is never destroyed, because devices may be closed while the
  /// process exits.
  static LibraryRegistry& process();

  /// Sets `library` to the library that was loaded from exactly the bytes of `binary`, and loads it if there
  /// is none. The call needs no current context.
  LoadCall open(const Driver& driver, const Binary& binary, std::shared_ptr<const KernelLibrary>& library);
  /// Returns the number of libraries in use.
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const KernelLibrary>> libraries_;
};

/// Describes a kernel that is ready to launch on its device.
struct LoadedKernel {
  std::shared_ptr<const KernelLibrary> library;
  int params_bytes = 0;  // It is 0 if the compiler did not report it.
  int max_threads = 0;   // The driver accepts at most this many threads per block.
  /// Holds the bytes of dynamic shared memory per block that the driver was asked to allow.
  int dynamic_shared_bytes = 0;
  /// Holds the compute capability of the code, which may be lower than that of the device.
  int capability = 0;
};

/// Holds a kernel with the type of its only argument and its launch requirements. The kernel stays loaded at
/// least as long as every engine of the device.
template <class Params>
struct Kernel {
  CUkernel kernel = nullptr;
  KernelNeeds needs;
};

/// Holds the loaded kernels of one device by display name. The class is thread-safe. The device's context
/// must be current in load().
class ModuleSet {
 public:
  ModuleSet(const Driver& driver, CUdevice device, LibraryRegistry& registry = LibraryRegistry::process())
      : driver_(driver), device_(device), registry_(registry) {}
  ModuleSet(const ModuleSet&) = delete;
  ModuleSet& operator=(const ModuleSet&) = delete;

  /// Loads the binaries that are not loaded yet. It also loads their code into the context, because the first
  /// launch may happen under stream capture. If the driver refuses a binary and `reload` is set, it calls
  /// `reload` once and tries the binary that it returns.
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
  mutable std::mutex mutex_;  // Guards kernels_. No thread holds it while it loads or compiles.
  std::map<std::string, LoadedKernel> kernels_;
};

}  // namespace minuet
