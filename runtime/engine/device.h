// A device: memory, loaded kernels, engines. Thread-safe; shared by plans and executions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/compile/compiler.h"
#include "runtime/engine/engine.h"

namespace minuet {

struct DeviceInfo {
  std::string name;         // "cuda:0", "cpu"
  std::string description;  // "NVIDIA H200", "AMD EPYC, 2 threads, AVX-512"
  std::string arch;         // "sm_90a"; empty on the CPU, which compiles nothing
  std::string driver;       // "13.0" or empty
  i64 memory_bytes = 0;
  // What measurements hold for (codegen/tuning); empty and 0 on the CPU.
  std::string compute_capability;  // "9.0"
  i64 multiprocessors = 0;
  i64 l2_bytes = 0;
};

/// Another binary in place of one that the driver refused (R28): compiled anew, not found again.
using Reload = std::function<llvm::Expected<std::shared_ptr<const Binary>>(const Binary& refused)>;

/// Where DeviceMemory comes from, 256-byte aligned: a device, or a queue's pool. Thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual llvm::Expected<void*> allocate(i64 bytes) = 0;
  virtual void release(void* memory) = 0;
  /// Whether nothing that is enqueued works any more in what it gives.
  virtual bool gives_idle() const { return true; }
};

class Device : public MemorySource {
 public:
  virtual const DeviceInfo& info() const = 0;
  /// Storage of weights: the dtype itself on CUDA, F32 (already rounded) on the CPU.
  virtual DType weight_type(DType dtype) const = 0;

  /// Blocking copies for set-up, on no stream of the caller's.
  virtual llvm::Error upload(void* target, const void* host, i64 bytes) = 0;
  virtual llvm::Error download(void* host, const void* source, i64 bytes) = 0;
  virtual llvm::Error synchronize(void* stream) = 0;

  /// Loads binaries (again is free). Nothing loads later, inside a run. `reload`, which may be empty, is
  /// called with no lock held, at most once a binary; where its answer is refused too, that is the error.
  virtual llvm::Error load(const std::vector<std::shared_ptr<const Binary>>& binaries,
                           const Reload& reload) = 0;
  /// Whether warm_up() has something to do for the candidates of an op.
  virtual bool needs_warm_up(llvm::ArrayRef<Candidate>) const { return false; }
  /// Makes ready what an op asks a library for, by whichever candidate it runs and whatever the cloud, so
  /// that nothing is looked up or loaded later, inside a call. Again is free. Thread-safe.
  virtual llvm::Error warm_up(llvm::ArrayRef<Candidate>) { return llvm::Error::success(); }
  /// `share`: of the queue that all the engine's calls come through; null for an engine on its own.
  virtual llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                                std::shared_ptr<EngineShare> share = {}) = 0;
  /// Null where engines have nothing to share.
  virtual llvm::Expected<std::shared_ptr<EngineShare>> create_share() = 0;
};

/// Owns memory of a source.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  static llvm::Expected<DeviceMemory> create(std::shared_ptr<MemorySource> source, i64 bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();
  char* data() const { return data_; }
  i64 bytes() const { return bytes_; }

 private:
  std::shared_ptr<MemorySource> source_;
  char* data_ = nullptr;
  i64 bytes_ = 0;
};

/// runtime/cpu
/// `threads`: at most cpu_count() of them are started, for more than CPUs only take time from one another; 0
/// for as many as that.
llvm::Expected<std::shared_ptr<Device>> open_cpu_device(i32 threads = 0);
/// runtime/cuda. Unavailable, with the reason and what to do, where there is no driver or no GPU. `cublaslt`:
/// the library's file; empty: looked for at first use.
llvm::Expected<std::shared_ptr<Device>> open_cuda_device(int ordinal, std::string cublaslt = {});
/// Version of the driver as "13.0", and how many devices; an error that says what is missing.
struct CudaSystem {
  std::string driver;
  int devices = 0;
};
llvm::Expected<CudaSystem> cuda_system();
/// Where libcublasLt is, without opening it for work; Unavailable, with the way to get it.
llvm::Expected<std::string> cublaslt_path();

}  // namespace minuet
