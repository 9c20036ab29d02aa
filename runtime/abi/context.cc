#include "runtime/abi/context.h"

#include "codegen/base/own_image.h"
#include "codegen/base/trace.h"
#include "codegen/compile/helper_compiler.h"

namespace minuet {
namespace {

llvm::Expected<std::shared_ptr<Device>> open_named(llvm::StringRef name, const DeviceOptions& options,
                                                   const AllocatorFunctions& allocator) {
  if (name == "cpu") return open_cpu_device(options.cpu_threads, allocator);
  int ordinal = 0;
  if (name.size() > 5 && name.substr(0, 5) == "cuda:" && !name.substr(5).getAsInteger(10, ordinal) &&
      ordinal >= 0 && name == "cuda:" + std::to_string(ordinal)) {
    return open_cuda_device(ordinal, options.cublaslt, allocator);
  }
  return make_error(StatusCode::InvalidArgument,
                    "there is no device named \"{0}\": use \"cpu\" or \"cuda:N\"", name);
}

}  // namespace

llvm::Expected<std::shared_ptr<MapEngines>> OpenDevice::map_engines(i32 ndim) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = engines_.find(ndim);
    if (found != engines_.end()) return found->second;
  }
  // MapEngines::create() compiles kernels and may call the log callback, so it runs without the lock. If two
  // threads create engines, the ones that are inserted first are kept.
  MINUET_ASSIGN(std::shared_ptr<MapEngines> made, MapEngines::create(device_, *cache_, ndim));
  const std::lock_guard<std::mutex> lock(mutex_);
  return engines_.emplace(ndim, std::move(made)).first->second;
}

llvm::Expected<std::shared_ptr<MapEngines>> OpenDevice::loaded_map_engines(i32 ndim, const char* load) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = engines_.find(ndim);
  if (found != engines_.end()) return found->second;
  return make_error(StatusCode::FailedPrecondition,
                    "the kernels for coordinates of {0} axes are not loaded on {1}: call {2} first", ndim,
                    device_->info().name, load);
}

llvm::Error OpenDevice::load_kernels(const std::vector<KernelSource>& sources) {
  if (device_->info().arch.empty()) return llvm::Error::success();
  const std::vector<KernelRequest> requests = requests_of(sources, device_->info().arch);
  MINUET_ASSIGN(const BinaryList binaries, cache_->get_or_compile_all(requests));
  return device_->load(binaries, [&](const Binary& refused) { return cache_->replace(requests, refused); });
}

llvm::Expected<std::shared_ptr<Context>> Context::create(CacheOptions options, DeviceOptions devices) {
  options.library_folder = own_folder();
  MINUET_ASSIGN(std::shared_ptr<KernelCache> cache,
                KernelCache::create(std::move(options), make_helper_compiler(devices.nvrtc, devices.helper)));
  return std::shared_ptr<Context>(new Context(std::move(cache), std::move(devices)));
}

llvm::Expected<std::shared_ptr<OpenDevice>> Context::open_new(llvm::StringRef name,
                                                              const AllocatorFunctions& allocator) {
  const Trace::Span span(cache_->trace(), "device", ("open " + name).str());
  MINUET_ASSIGN(std::shared_ptr<Device> device, open_named(name, device_options_, allocator));
  return std::make_shared<OpenDevice>(std::move(device), cache_);
}

llvm::Expected<std::shared_ptr<OpenDevice>> Context::open_device(llvm::StringRef name,
                                                                 const AllocatorFunctions& allocator) {
  if (allocator.allocate) return open_new(name, allocator);
  if (name.empty()) {
    llvm::Expected<std::shared_ptr<OpenDevice>> cuda = open_device("cuda:0", allocator);
    if (cuda) return cuda;
    llvm::consumeError(cuda.takeError());
    return open_device("cpu", allocator);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = devices_.find(name.str());
  if (known != devices_.end()) return known->second;
  MINUET_ASSIGN(std::shared_ptr<OpenDevice> open, open_new(name, allocator));
  devices_.emplace(name.str(), open);
  return open;
}

TuningEnvironment tuning_environment(const DeviceInfo& device) {
  TuningEnvironment environment;
  environment.gpu = device.description;
  environment.compute_capability = device.compute_capability;
  environment.multiprocessors = device.multiprocessors;
  environment.l2_bytes = device.l2_bytes;
  return environment;
}

llvm::Expected<TuningEnvironment> Context::tuning_environment_of(const DeviceInfo& device) {
  TuningEnvironment environment = tuning_environment(device);
  if (device.arch.empty()) return environment;
  MINUET_ASSIGN(const std::string compiler, cache_->compiler_id_or_none());
  environment.toolkit = toolkit_of(compiler);
  return environment;
}

std::optional<TuningStore> Context::tuning_store(const std::string& directory) {
  std::optional<TuningStore> store;
  KernelCache& cache = *cache_;
  if (!directory.empty()) {
    store.emplace(directory, "", cache.policy(), cache.file_system());
  } else if (!cache.directory().empty()) {
    store.emplace(cache.directory(), tuning_folder_of_cache(), cache.policy(), cache.file_system());
  }
  return store;
}

llvm::Expected<std::size_t> Context::load_tuning(const DeviceInfo& device, const std::string& directory) {
  KernelCache& cache = *cache_;
  MINUET_ASSIGN(const TuningEnvironment environment, tuning_environment_of(device));
  std::optional<TuningStore> user = tuning_store(directory);
  const auto warn = [&](const std::string& text) { cache.warn(text); };
  std::vector<std::string> sections;
  for (const std::shared_ptr<const Bundle>& bundle : cache.bundles()) {
    llvm::Expected<std::string> section = bundle->tuning();
    if (!section) {
      warn(take_status(section.takeError()).message());
    } else if (!section->empty()) {
      sections.push_back(std::move(*section));
    }
  }
  const std::shared_ptr<const TuningSnapshot> loaded =
      minuet::load_tuning(environment, user ? &*user : nullptr, sections, warn);
  tuning_.push(loaded);
  return loaded->size();
}

std::shared_ptr<const TuningSnapshot> Context::tuning() const {
  const std::shared_ptr<const TuningSnapshot>* const now = tuning_.first();
  return now != nullptr ? *now : nullptr;
}

}  // namespace minuet
