#include "tests/runtime/cuda/gpu.h"

#include <atomic>
#include <set>
#include <thread>

#include "codegen/cache/kernel_cache.h"
#include "tests/support/layer_run.h"

namespace minuet {

Gpu& Gpu::get() {
  // Leaked: the driver may be gone before static objects are.
  static Gpu* gpu = [] {
    auto* opened = new Gpu;
    llvm::Expected<std::shared_ptr<CudaDevice>> device = CudaDevice::open(0);
    if (device) {
      opened->device = *device;
    } else {
      opened->reason = take_status(device.takeError()).message();
    }
    return opened;
  }();
  return *gpu;
}

void Gpu::load(const std::vector<KernelSource>& sources) {
  static KernelCache* cache = take(KernelCache::create({}, take(open_nvrtc()))).release();
  static std::set<std::string> loaded;
  std::vector<KernelSource> missing;
  for (const KernelSource& source : sources) {
    if (loaded.insert(source.display_name).second) missing.push_back(source);
  }
  std::vector<std::shared_ptr<const Binary>> binaries(missing.size());
  std::vector<std::string> errors(missing.size());
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t i = next++; i < missing.size(); i = next++) {
      auto binary = cache->get_or_compile({missing[i], device->info().arch});
      if (binary) {
        binaries[i] = *binary;
      } else {
        errors[i] = llvm::toString(binary.takeError());
      }
    }
  };
  std::vector<std::thread> threads(
      std::min<std::size_t>(missing.size(), std::thread::hardware_concurrency()));
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) ASSERT_EQ(error, "");
  take(device->load(binaries, {}));
}

void Gpu::load_map(i32 ndim, const SearchChoice& search) {
  for (KeyType key : {KeyType::U32, KeyType::U64}) load(sources_of(choose_map(key, ndim, search)));
}

}  // namespace minuet
