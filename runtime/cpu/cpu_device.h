// Implements the CPU as a device with host memory, one pool of threads, and engines that share the pool.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/device.h"
#include "runtime/vector/vector_kernels.h"

namespace minuet {

/// Holds the options of a CpuDevice. open_cpu_device() chooses them, and tests may choose others.
struct CpuOptions {
  i32 threads = 0;  // The thread pool has exactly this many threads; 0 means cpu_count().
  VectorSet vectors = VectorSet::Best;
  AllocatorFunctions allocator = {};
};

class CpuDevice final : public Device {
 public:
  /// Returns Unavailable if the machine lacks the instruction set `options.vectors`.
  static llvm::Expected<std::shared_ptr<CpuDevice>> create(const CpuOptions& options);
  ~CpuDevice() override;

  const DeviceInfo& info() const override { return info_; }
  DType weight_type(DType) const override { return DType::F32; }
  llvm::Expected<void*> allocate(i64 bytes) override;
  void release(void* memory) override;
  llvm::Error upload(void* target, const void* host, i64 bytes) override;
  llvm::Error clear(void* target, i64 bytes) override;
  llvm::Error download(void* host, const void* source, i64 bytes) override;
  llvm::Error synchronize(void*) override { return llvm::Error::success(); }
  llvm::Error load(const std::vector<std::shared_ptr<const Binary>>&, const Reload&) override {
    return llvm::Error::success();
  }
  llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                        std::shared_ptr<EngineShare> share) override;
  llvm::Expected<std::shared_ptr<EngineShare>> create_share() override { return nullptr; }

 private:
  CpuDevice(i32 threads, const VectorKernels& kernels, const AllocatorFunctions& allocator);

  CallersAllocator allocator_;
  std::shared_ptr<ThreadPool> pool_;
  const VectorKernels& kernels_;
  DeviceInfo info_;
};

}  // namespace minuet
