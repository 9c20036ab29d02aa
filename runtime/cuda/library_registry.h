// Cubins in the driver: each is loaded once a process, whatever the number of devices (R25).
//
// A CUlibrary and its CUkernel belong to no context: the driver brings the code into a context when a
// function of it is asked for there, also into one that was destroyed and made again.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "codegen/compiler.h"
#include "runtime/cuda/driver.h"

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

  /// The library of these very bytes. Needs no current context.
  LoadCall load(const Driver& driver, const Binary& binary, std::shared_ptr<const KernelLibrary>& library);
  /// Libraries in use now.
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const KernelLibrary>> libraries_;
};

}  // namespace minuet
