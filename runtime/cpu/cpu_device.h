// The CPU as a device: memory of the host, one pool of threads, engines that share it.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/device.h"
#include "runtime/vector/vector_kernels.h"

namespace minuet {

/// What open_cpu_device() decides for itself, and tests choose.
struct CpuOptions {
  i32 threads = 0;  // 0: as many as cpu_count() has CPUs; else exactly so many, however few CPUs there are
  VectorSet vectors = VectorSet::Best;
};

class CpuDevice final : public Device {
 public:
  /// Unavailable where the machine lacks the instruction set.
  static llvm::Expected<std::shared_ptr<CpuDevice>> create(const CpuOptions& options);

  const DeviceInfo& info() const override { return info_; }
  DType weight_type(DType) const override { return DType::F32; }
  llvm::Expected<void*> allocate(i64 bytes) override;
  void release(void* memory) override;
  llvm::Error upload(void* target, const void* host, i64 bytes) override;
  llvm::Error download(void* host, const void* source, i64 bytes) override;
  llvm::Error synchronize(void*) override { return llvm::Error::success(); }
  llvm::Error load(const std::vector<std::shared_ptr<const Binary>>&, const Reload&) override {
    return llvm::Error::success();
  }
  llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                        std::shared_ptr<EngineShare> share) override;
  llvm::Expected<std::shared_ptr<EngineShare>> create_share() override { return nullptr; }

 private:
  CpuDevice(i32 threads, const VectorKernels& kernels);

  std::shared_ptr<ThreadPool> pool_;
  const VectorKernels& kernels_;
  DeviceInfo info_;
};

}  // namespace minuet
