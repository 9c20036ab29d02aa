// One GPU behind runtime/engine/device.h: its primary context, memory, loaded kernels and cuBLASLt.
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

/// How a layer's weights come in the order of its groups (convolution.md, "The GMaS step").
enum class WeightPath {
  Automatic,     // pointer arrays where cuBLASLt has an algorithm for them, else a permuted copy
  PointerArray,  // members without such an algorithm run one by one
  Permute,
};

struct CudaEngineOptions {
  WeightPath weights = WeightPath::Automatic;
};

class CudaDevice final : public Device, public std::enable_shared_from_this<CudaDevice> {
 public:
  /// `cublaslt`: the library's file; empty: as CublasLt::get finds it.
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
  /// An engine on its own with options: for tests and measurements.
  llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                        CudaEngineOptions options);

  const Driver& driver() const { return driver_; }
  CUcontext context() const { return context_; }
  i32 multiprocessors() const { return multiprocessors_; }
  /// Opened at first use; Unavailable, with where it was looked for, where there is none.
  llvm::Expected<Matmuls*> matmuls();

  /// The loaded kernel of `spec`. FailedPrecondition where it is not loaded.
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
  /// What the kernel's code knows nothing of is taken out of `needs`.
  llvm::Expected<CUkernel> find_kernel(const std::string& name, std::size_t params_bytes, KernelNeeds& needs);

  const Driver& driver_;
  CUdevice device_;
  CUcontext context_;  // the primary context, retained
  const std::string cublaslt_;
  DeviceInfo info_;
  i32 multiprocessors_ = 1;
  ModuleSet modules_;
  std::mutex mutex_;  // of opening cuBLASLt
  CUstream copies_ = nullptr;
  std::unique_ptr<Matmuls> matmuls_;
};

}  // namespace minuet
