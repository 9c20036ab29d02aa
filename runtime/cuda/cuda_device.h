// Implements one GPU as a device (runtime/engine/device.h). The device has the primary context, memory,
// loaded kernels and cuBLASLt.
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

/// Selects how a batch of GEMMs reads its weights, whose order in memory is not the order of the batch.
enum class WeightPath {
  Automatic,  // Uses PointerArray if cuBLASLt has an algorithm for it, otherwise Permute.
  /// Passes an array of pointers to the weights. If a batch has no algorithm, its members run one by one.
  PointerArray,
  Permute,  // Passes a copy of the weights that is in the order of the batch.
};

struct CudaEngineOptions {
  WeightPath weights = WeightPath::Automatic;
};

class CudaDevice final : public Device, public std::enable_shared_from_this<CudaDevice> {
 public:
  /// `cublaslt` is the path of the cuBLASLt library. If it is empty, CublasLt::get() searches for the
  /// library.
  static llvm::Expected<std::shared_ptr<CudaDevice>> open(int ordinal, std::string cublaslt = {},
                                                          const AllocatorFunctions& allocator = {});
  ~CudaDevice() override;

  const DeviceInfo& info() const override { return info_; }
  DType weight_type(DType dtype) const override { return dtype; }
  llvm::Expected<void*> allocate(i64 bytes) override { return allocate_on(nullptr, bytes); }
  void release(void* memory) override { release_on(nullptr, memory); }
  /// With a caller's allocator, returns FailedPrecondition while the stream is being captured.
  llvm::Expected<void*> allocate_on(void* stream, i64 bytes) override;
  /// With a caller's allocator, memory of a stream that is being captured is kept until the device is
  /// destroyed.
  void release_on(void* stream, void* memory) override;
  bool release_waits() const override { return !allocator_; }
  llvm::Error upload(void* target, const void* host, i64 bytes) override;
  llvm::Error clear(void* target, i64 bytes) override;
  llvm::Error download(void* host, const void* source, i64 bytes) override;
  llvm::Error synchronize(void* stream) override;
  void* own_stream() const override { return copies_; }
  llvm::Error load(const std::vector<std::shared_ptr<const Binary>>& binaries, const Reload& reload) override;
  bool needs_warm_up(llvm::ArrayRef<Candidate> candidates) const override;
  llvm::Error warm_up(llvm::ArrayRef<Candidate> candidates) override;
  llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                        std::shared_ptr<EngineShare> share) override;
  llvm::Expected<std::shared_ptr<EngineShare>> create_share() override;
  /// Creates an engine that does not belong to a Queue. Options other than the default are for tests and
  /// measurements.
  llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                        CudaEngineOptions options);

  const Driver& driver() const { return driver_; }
  CUcontext context() const { return context_; }
  i32 multiprocessors() const { return multiprocessors_; }
  /// Returns the object that runs GEMMs on the device. The first call opens cuBLASLt. If the library cannot
  /// be opened, the call returns Unavailable with the places that were tried.
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
  CudaDevice(const Driver& driver, CUdevice device, CUcontext context, std::string cublaslt,
             const AllocatorFunctions& allocator)
      : driver_(driver),
        device_(device),
        context_(context),
        cublaslt_(std::move(cublaslt)),
        allocator_(allocator),
        modules_(driver, device) {}
  llvm::Error describe(int ordinal);
  /// Returns true if `stream` is not null and is being captured.
  bool is_captured(void* stream) const;
  /// Returns the loaded kernel with this display name. Clears `needs.programmatic` if the loaded code does
  /// not support programmatic dependent launches.
  llvm::Expected<CUkernel> find_kernel(const std::string& name, std::size_t params_bytes, KernelNeeds& needs);

  const Driver& driver_;
  CUdevice device_;
  CUcontext context_;  // Holds the primary context, which the destructor releases.
  const std::string cublaslt_;
  CallersAllocator allocator_;
  DeviceInfo info_;
  i32 multiprocessors_ = 1;
  ModuleSet modules_;
  std::mutex mutex_;  // Guards the creation of matmuls_.
  CUstream copies_ = nullptr;
  std::unique_ptr<Matmuls> matmuls_;
};

}  // namespace minuet
