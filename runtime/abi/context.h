// What a process shares: the kernel cache, the compiler, the open devices. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "codegen/base/push_list.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/choose/tuning_snapshot.h"
#include "codegen/tuning/load_tuning.h"
#include "runtime/maps/map_engines.h"

namespace minuet {

/// Cold things that come with a device: opened once per name and context.
class OpenDevice {
 public:
  OpenDevice(std::shared_ptr<Device> device, std::shared_ptr<KernelCache> cache)
      : device_(std::move(device)), cache_(std::move(cache)) {}
  const std::shared_ptr<Device>& device() const { return device_; }
  Trace* trace() const { return cache_->trace(); }
  /// Made at first use: it compiles.
  llvm::Expected<std::shared_ptr<MapEngines>> map_engines(i32 ndim);

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<KernelCache> cache_;
  std::mutex mutex_;
  std::map<i32, std::shared_ptr<MapEngines>> engines_;
};

/// What devices are opened with. Files of CUDA's libraries; empty: MINUET_NVRTC and MINUET_CUBLASLT, else
/// looked for.
struct DeviceOptions {
  std::string nvrtc;  // or its folder
  std::string cublaslt;
  std::string helper;   // the program minuet-compile; empty: beside the library
  i32 cpu_threads = 0;  // as open_cpu_device takes them
};

/// What decides how fast kernels are on `device`, but for the toolkit.
TuningEnvironment tuning_environment(const DeviceInfo& device);

class Context {
 public:
  /// NVRTC is asked for at the first kernel that is in no bundle, so that a context costs nothing where all
  /// are.
  static llvm::Expected<std::shared_ptr<Context>> create(CacheOptions options, DeviceOptions devices);
  const std::shared_ptr<KernelCache>& cache() const { return cache_; }
  /// "cuda:N", "cpu", or "" for cuda:0 where usable, else cpu. The same name gives the same device.
  llvm::Expected<std::shared_ptr<OpenDevice>> open_device(llvm::StringRef name);

  /// What was measured on devices like this one: the results in a folder (empty: the cache's), then those of
  /// bundles (R35). Plans that are made from now on go by it.
  llvm::Expected<std::size_t> load_tuning(const DeviceInfo& device, const std::string& directory = "");
  /// With the toolkit, where the device has kernels.
  llvm::Expected<TuningEnvironment> tuning_environment_of(const DeviceInfo& device);
  /// In a folder, or, where the name is empty, in the cache's: nothing where kernels live in memory only.
  std::optional<TuningStore> tuning_store(const std::string& directory);
  /// Null before load_tuning.
  std::shared_ptr<const TuningSnapshot> tuning() const;

 private:
  Context(std::shared_ptr<KernelCache> cache, DeviceOptions devices)
      : cache_(std::move(cache)), device_options_(std::move(devices)) {}

  std::shared_ptr<KernelCache> cache_;
  const DeviceOptions device_options_;
  std::mutex mutex_;
  /// Kept open with the context: plans and sets go by the device's identity.
  std::map<std::string, std::shared_ptr<OpenDevice>> devices_;
  /// The first holds. No lock, for plans in a forked child.
  PushList<std::shared_ptr<const TuningSnapshot>> tuning_;
};

}  // namespace minuet
