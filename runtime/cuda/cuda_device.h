// One GPU as a device (runtime/engine/device.h): its primary context, memory, loaded kernels and cuBLASLt.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/cuda/matmul.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/device.h"

namespace minuet {

/// How the GEMMs of a group get their weights in the group's order.
enum class WeightPath {
  Automatic,     // pointer arrays if cuBLASLt has an algorithm for them, otherwise a permuted copy
  PointerArray,  // members without such an algorithm run one by one
  Permute,
};

struct CudaEngineOptions {
  WeightPath weights = WeightPath::Automatic;
};

class CudaDevice final : public Device, public std::enable_shared_from_this<CudaDevice> {
 public:
  /// `cublaslt` is the library's file; if it is empty, CublasLt::get looks for it.
  static llvm::Expected<std::shared_ptr<CudaDevice>> open(int ordinal, std::string cublaslt = {});
  ~CudaDevice() override;

  const DeviceInfo& info() const override { return info_; }
  DType weight_type(DType dtype) const override { return dtype; }
  llvm::Expected<void*> allocate(i64 bytes) override;
  void release(void* memory) override;
  llvm::Error upload(void* target, const void* host, i64 bytes) override;
  llvm::Error download(void* host, const void* source, i64 bytes) override;
  llvm::Error synchronize(void* stream) override;
  llvm::Error load(const std::vector<std::shared_ptr<const Binary>>& binaries, const Reload& reload) override;
  bool needs_warm_up(llvm::ArrayRef<Candidate> candidates) const override;
  llvm::Error warm_up(llvm::ArrayRef<Candidate> candidates) override;
  llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                        std::shared_ptr<EngineShare> share) override;
  llvm::Expected<std::shared_ptr<EngineShare>> create_share() override;
  /// Creates an engine outside of queues with options, for tests and measurements.
  llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                        CudaEngineOptions options);

  const Driver& driver() const { return driver_; }
  CUcontext context() const { return context_; }
  i32 multiprocessors() const { return multiprocessors_; }
  /// Returns the device's GEMMs and opens cuBLASLt at first use. Returns Unavailable with the places that
  /// were tried if there is none.
  llvm::Expected<Matmuls*> matmuls();

  /// Returns the loaded kernel of `spec`, or FailedPrecondition if it is not loaded.
  template <class Spec>
  llvm::Expected<Kernel<typename KernelRow<Spec>::Params>> kernel(const Spec& spec) {
    using Params = typename KernelRow<Spec>::Params;
    KernelNeeds needs = kernel_needs(spec);
    MINUET_ASSIGN(CUkernel kernel, find_kernel(display_name(spec), sizeof(Params), needs));
    return Kernel<Params>{kernel, needs};
  }

 private:
  CudaDevice(const Driver& driver, CUdevice device, CUcontext context, std::string cublaslt)
      : driver_(driver),
        device_(device),
        context_(context),
        cublaslt_(std::move(cublaslt)),
        modules_(driver, device) {}
  llvm::Error describe(int ordinal);
  /// Clears needs that the loaded code does not support.
  llvm::Expected<CUkernel> find_kernel(const std::string& name, std::size_t params_bytes, KernelNeeds& needs);

  const Driver& driver_;
  CUdevice device_;
  CUcontext context_;  // the primary context, retained
  const std::string cublaslt_;
  DeviceInfo info_;
  i32 multiprocessors_ = 1;
  ModuleSet modules_;
  std::mutex mutex_;  // guards matmuls_
  CUstream copies_ = nullptr;
  std::unique_ptr<Matmuls> matmuls_;
};

}  // namespace minuet
