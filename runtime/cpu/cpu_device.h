// Implements the CPU as a device with host memory, one pool of threads, and engines that share the pool.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/device.h"
#include "runtime/vector/vector_kernels.h"

namespace minuet {

/// Holds options that open_cpu_device() sets. Tests may set them directly.
struct CpuOptions {
  i32 threads = 0;  // The pool has exactly this many threads; 0 means cpu_count().
  VectorSet vectors = VectorSet::Best;
};

class CpuDevice final : public Device {
 public:
  /// Returns Unavailable if the machine lacks the instruction set in the options.
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
