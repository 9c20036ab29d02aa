// Loaded kernels of one device: cubin -> CUlibrary -> function, each display name once.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/compiler.h"
#include "runtime/cuda/driver.h"

namespace minuet {

/// A kernel ready to launch in the primary context of its device.
struct LoadedKernel {
  CUlibrary library = nullptr;
  CUfunction function = nullptr;
  int params_bytes = 0;  // 0: the compiler did not tell
  int max_threads = 0;   // per block, as the driver sees it
};

/// A kernel with the type of its one argument; `function` outlives every engine of the device.
template <class Params>
struct Kernel {
  CUfunction function = nullptr;
  i32 threads = 0;
};

/// Thread-safe. The device's context is current in every call.
class ModuleSet {
 public:
  ModuleSet(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {}
  ModuleSet(const ModuleSet&) = delete;
  ModuleSet& operator=(const ModuleSet&) = delete;

  /// Loads what is not loaded yet, code included: the first launch may happen under stream capture (R26).
  llvm::Error load(const std::vector<std::shared_ptr<const Binary>>& binaries);
  /// FailedPrecondition where load() has not seen it.
  llvm::Expected<LoadedKernel> find(const std::string& display_name, std::size_t params_bytes,
                                    int threads) const;
  void unload();

 private:
  llvm::Expected<LoadedKernel> load_one(const Binary& binary) const;

  const Driver& driver_;
  CUdevice device_;
  mutable std::mutex mutex_;
  std::map<std::string, LoadedKernel> kernels_;
};

}  // namespace minuet
