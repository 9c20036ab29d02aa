// Declares the context. It holds the kernel cache, the compiler and the open devices, which all plans of a
// context share. The context is thread-safe.
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

/// Holds an open device and the engines that build coordinate sets and kernel maps on it. A context keeps one
/// OpenDevice per device name. A device with a caller's allocator is not kept.
class OpenDevice {
 public:
  OpenDevice(std::shared_ptr<Device> device, std::shared_ptr<KernelCache> cache)
      : device_(std::move(device)), cache_(std::move(cache)) {}
  const std::shared_ptr<Device>& device() const { return device_; }
  Trace* trace() const { return cache_->trace(); }
  /// Returns the engines for coordinates with `ndim` axes. The first call for an `ndim` compiles their
  /// kernels.
  llvm::Expected<std::shared_ptr<MapEngines>> map_engines(i32 ndim);
  /// Returns the engines that map_engines() has created. If it was not called yet, returns FailedPrecondition
  /// and names the function `load` of the ABI, which calls it.
  llvm::Expected<std::shared_ptr<MapEngines>> loaded_map_engines(i32 ndim, const char* load);
  /// Compiles the kernels, if they are nowhere to be found, and loads them.
  llvm::Error load_kernels(const std::vector<KernelSource>& sources);

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<KernelCache> cache_;
  std::mutex mutex_;
  std::map<i32, std::shared_ptr<MapEngines>> engines_;
};

/// Holds options for opening devices. If the path of a CUDA library is empty, the environment variable
/// MINUET_NVRTC or MINUET_CUBLASLT names the library. If this is not set either, the library is searched for
/// in the usual places.
struct DeviceOptions {
  std::string nvrtc;  // Names the NVRTC library or its folder.
  std::string cublaslt;
  /// Holds the path of the program minuet-compile. If it is empty, the program beside libminuet is used.
  std::string helper;
  /// Limits the number of threads of the CPU device. 0 means one thread per CPU.
  i32 cpu_threads = 0;
};

/// Returns the properties that determine how fast kernels run on `device`, except the version of the CUDA
/// toolkit.
TuningEnvironment tuning_environment(const DeviceInfo& device);

class Context {
 public:
  /// Creates a context without opening NVRTC. NVRTC is opened for the first kernel that is in no bundle of
  /// compiled kernels, so that a context whose kernels are all in bundles does not pay for it.
  static llvm::Expected<std::shared_ptr<Context>> create(CacheOptions options, DeviceOptions devices);
  const std::shared_ptr<KernelCache>& cache() const { return cache_; }
  /// Returns DeviceOptions::cpu_threads.
  i32 cpu_threads() const { return device_options_.cpu_threads; }
  /// Opens "cuda:N" or "cpu". The empty name selects cuda:0 if it is usable, otherwise cpu. Equal names
  /// return the same device. If `allocator` has functions, each call opens a new device, which belongs to the
  /// caller alone, because the memory of a device comes from one allocator. `name` must then not be empty.
  llvm::Expected<std::shared_ptr<OpenDevice>> open_device(llvm::StringRef name,
                                                          const AllocatorFunctions& allocator);

  /// Loads tuning results that were measured on devices like this one. The results come from `directory` (or
  /// from the cache's folder if `directory` is empty) and then from the cache's bundles (Bundle). Plans that
  /// are created afterwards use them. Returns the number of results.
  llvm::Expected<std::size_t> load_tuning(const DeviceInfo& device, const std::string& directory = "");
  /// Returns tuning_environment() of the device, and adds the version of the CUDA toolkit if the device runs
  /// compiled kernels.
  llvm::Expected<TuningEnvironment> tuning_environment_of(const DeviceInfo& device);
  /// Returns the store of tuning results in `directory`, or in the cache's folder if `directory` is empty.
  /// Returns nullopt if the cache has no folder either, because it then keeps kernels in memory only.
  std::optional<TuningStore> tuning_store(const std::string& directory);
  /// Returns the tuning results that load_tuning() loaded last, or null before its first call.
  std::shared_ptr<const TuningSnapshot> tuning() const;

 private:
  Context(std::shared_ptr<KernelCache> cache, DeviceOptions devices)
      : cache_(std::move(cache)), device_options_(std::move(devices)) {}
  llvm::Expected<std::shared_ptr<OpenDevice>> open_new(llvm::StringRef name,
                                                       const AllocatorFunctions& allocator);

  std::shared_ptr<KernelCache> cache_;
  const DeviceOptions device_options_;
  std::mutex mutex_;
  /// Devices stay open as long as the context, because plans and coordinate sets compare devices by their
  /// addresses.
  std::map<std::string, std::shared_ptr<OpenDevice>> devices_;
  /// The tuning results that were pushed last are in use. The list needs no lock, so plans can be created in
  /// the child process of a fork().
  PushList<std::shared_ptr<const TuningSnapshot>> tuning_;
};

}  // namespace minuet
