// What a process shares: the kernel cache, the compiler, the open devices. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "codegen/cache/kernel_cache.h"
#include "codegen/push_list.h"
#include "codegen/tuning/tuning_snapshot.h"
#include "runtime/coordinate_set.h"

namespace minuet {

/// Cold things that come with a device: opened once per name and context.
class OpenDevice {
 public:
  OpenDevice(std::shared_ptr<Device> device, std::shared_ptr<KernelCache> cache)
      : device_(std::move(device)), cache_(std::move(cache)) {}
  const std::shared_ptr<Device>& device() const { return device_; }
  Trace* trace() const { return cache_->trace(); }
  /// Made at first use: it compiles.
  llvm::Expected<std::shared_ptr<MapService>> map_service(i32 ndim);

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<KernelCache> cache_;
  std::mutex mutex_;
  std::map<i32, std::shared_ptr<MapService>> services_;
};

/// Files of CUDA's libraries; empty: MINUET_NVRTC and MINUET_CUBLASLT, else looked for.
struct LibraryPaths {
  std::string nvrtc;  // or its folder
  std::string cublaslt;
  std::string helper;  // the program minuet-compile; empty: beside the library
};

/// What decides how fast kernels are on `device`, but for the toolkit.
TuningEnvironment tuning_environment(const DeviceInfo& device);

class Context {
 public:
  /// NVRTC is asked for at the first kernel that is in no bundle, so that a context costs nothing where all
  /// are.
  static llvm::Expected<std::shared_ptr<Context>> create(CacheOptions options, LibraryPaths libraries);
  const std::shared_ptr<KernelCache>& cache() const { return cache_; }
  /// "cuda:N", "cpu", or "" for cuda:0 where usable, else cpu. The same name gives the same device.
  llvm::Expected<std::shared_ptr<OpenDevice>> open_device(llvm::StringRef name);

  /// What was measured on GPUs like this one: the results in the cache's folder, then those of bundles (R35).
  /// Plans that are made from now on go by it. FailedPrecondition on the CPU.
  llvm::Expected<std::size_t> load_tuning(const DeviceInfo& device);
  /// Null before load_tuning; lives as long as the context.
  const TuningSnapshot* tuning() const;

 private:
  Context(std::shared_ptr<KernelCache> cache, std::string cublaslt)
      : cache_(std::move(cache)), cublaslt_(std::move(cublaslt)) {}

  std::shared_ptr<KernelCache> cache_;
  const std::string cublaslt_;
  std::mutex mutex_;
  /// Kept open with the context: plans and sets go by the device's identity.
  std::map<std::string, std::shared_ptr<OpenDevice>> devices_;
  /// The first holds. No lock, for plans in a forked child.
  PushList<std::shared_ptr<const TuningSnapshot>> tuning_;
};

}  // namespace minuet
