#include "runtime/cpu/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "codegen/base/cpu_count.h"
#include "codegen/base/system_file.h"
#include "runtime/cpu/cpu_engine.h"

namespace minuet {
namespace {

/// Returns the processor's name, for example "AMD EPYC 9554", or "CPU" if the system does not report one.
std::string processor_name() {
  const std::string text = read_system_file("/proc/cpuinfo");
  for (llvm::StringRef rest = text; !rest.empty();) {
    const auto [line, next] = rest.split('\n');
    rest = next;
    const auto [field, name] = line.split(':');
    if (field.trim() == "model name" && !name.trim().empty()) return name.trim().str();
  }
  return "CPU";
}

}  // namespace

CpuDevice::CpuDevice(i32 threads, const VectorKernels& kernels, const AllocatorFunctions& allocator)
    : allocator_(allocator), pool_(std::make_shared<ThreadPool>(threads)), kernels_(kernels) {
  info_.name = "cpu";
  info_.description = llvm::formatv("{0}, {1} thread{2}, {3}", processor_name(), pool_->threads(),
                                    pool_->threads() == 1 ? "" : "s", kernels.name)
                          .str();
  info_.memory_bytes = static_cast<i64>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

llvm::Expected<std::shared_ptr<CpuDevice>> CpuDevice::create(const CpuOptions& options) {
  const VectorKernels* kernels = vector_kernels(options.vectors);
  if (kernels == nullptr) {
    return make_error(StatusCode::Unavailable, "this machine does not have the requested instruction set");
  }
  const i32 threads = options.threads > 0 ? options.threads : cpu_count();
  return std::shared_ptr<CpuDevice>(new CpuDevice(threads, *kernels, options.allocator));
}

CpuDevice::~CpuDevice() { allocator_.release_all(); }

llvm::Expected<void*> CpuDevice::allocate(i64 bytes) {
  if (allocator_) return allocator_.allocate(bytes, nullptr);
  void* memory = nullptr;
  // Linux may grant more memory than there is and kill the process later, so a request for more memory than
  // the machine has fails here.
  if (bytes < 0 || bytes > info_.memory_bytes ||
      posix_memalign(&memory, 256, static_cast<size_t>(std::max<i64>(bytes, 1))) != 0) {
    return make_error(StatusCode::ResourceExhausted,
                      "cannot allocate {0} bytes of memory; the machine has {1}", bytes, info_.memory_bytes);
  }
  return memory;
}

void CpuDevice::release(void* memory) {
  if (!allocator_) return std::free(memory);
  allocator_.release(memory, nullptr);
}

llvm::Error CpuDevice::upload(void* target, const void* host, i64 bytes) {
  if (bytes > 0) std::memcpy(target, host, static_cast<size_t>(bytes));
  return llvm::Error::success();
}

llvm::Error CpuDevice::clear(void* target, i64 bytes) {
  if (bytes > 0) std::memset(target, 0, static_cast<size_t>(bytes));
  return llvm::Error::success();
}

llvm::Error CpuDevice::download(void* host, const void* source, i64 bytes) {
  if (bytes > 0) std::memcpy(host, source, static_cast<size_t>(bytes));
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<Engine>> CpuDevice::create_engine(const EngineChoice& choice,
                                                                 std::shared_ptr<EngineShare>) {
  return std::make_unique<CpuEngine>(pool_, kernels_, choice.ndim);
}

llvm::Expected<std::shared_ptr<Device>> open_cpu_device(i32 threads, const AllocatorFunctions& allocator) {
  CpuOptions options;
  options.allocator = allocator;
  options.threads = std::min(threads, cpu_count());
  return CpuDevice::create(options);
}

}  // namespace minuet
