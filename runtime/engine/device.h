// A device: its memory, loaded kernels and engines. Thread-safe; plans and executions share it.
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
  std::string arch;         // "sm_90a"; empty on the CPU, which compiles no kernels
  std::string driver;       // "13.0" or empty
  i64 memory_bytes = 0;
  // The properties that a tuning measurement is valid for (codegen/tuning); empty and 0 on the CPU.
  std::string compute_capability;  // "9.0"
  i64 multiprocessors = 0;
  i64 l2_bytes = 0;
};

/// Returns a newly compiled binary to replace one that the driver refused. It must not come from a cache.
using Reload = std::function<llvm::Expected<std::shared_ptr<const Binary>>(const Binary& refused)>;

/// A source of memory for DeviceMemory, aligned to 256 bytes: a device, or the pool of a queue. Thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual llvm::Expected<void*> allocate(i64 bytes) = 0;
  virtual void release(void* memory) = 0;
  /// Returns true if no enqueued work still uses the memory that allocate() returns.
  virtual bool returns_idle_memory() const { return true; }
};

class Device : public MemorySource {
 public:
  virtual const DeviceInfo& info() const = 0;
  /// Returns the type in which weights are stored: the dtype itself on CUDA, F32 (already rounded to the
  /// dtype) on the CPU.
  virtual DType weight_type(DType dtype) const = 0;

  /// Blocking copies for set-up; they do not use a stream of the caller.
  virtual llvm::Error upload(void* target, const void* host, i64 bytes) = 0;
  virtual llvm::Error download(void* host, const void* source, i64 bytes) = 0;
  virtual llvm::Error synchronize(void* stream) = 0;

  /// Loads binaries; those already loaded cost nothing. A run loads nothing. If the driver refuses a binary,
  /// calls `reload` (may be empty) at most once for it, with no lock held; if the replacement is refused too,
  /// returns that error.
  virtual llvm::Error load(const std::vector<std::shared_ptr<const Binary>>& binaries,
                           const Reload& reload) = 0;
  /// Returns true if warm_up() has work to do for the candidates of an op.
  virtual bool needs_warm_up(llvm::ArrayRef<Candidate>) const { return false; }
  /// Prepares the library resources that an op needs, for every candidate and every cloud, so that no call
  /// looks up or loads anything later. Repeating it costs nothing. Thread-safe.
  virtual llvm::Error warm_up(llvm::ArrayRef<Candidate>) { return llvm::Error::success(); }
  /// `share` is that of the queue through which all calls of the engine go; null for an engine without a
  /// queue.
  virtual llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                                std::shared_ptr<EngineShare> share = {}) = 0;
  /// Returns null if engines of this device share nothing.
  virtual llvm::Expected<std::shared_ptr<EngineShare>> create_share() = 0;
};

/// Owns memory from a MemorySource.
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

/// Implemented in runtime/cpu. Starts at most cpu_count() threads, because more threads than CPUs only slow
/// each other down; 0 threads means cpu_count().
llvm::Expected<std::shared_ptr<Device>> open_cpu_device(i32 threads = 0);
/// Implemented in runtime/cuda. Returns Unavailable, with the reason and a remedy, if there is no driver or
/// no GPU. `cublaslt` is the path of the library; if it is empty, the library is searched for at first use.
llvm::Expected<std::shared_ptr<Device>> open_cuda_device(int ordinal, std::string cublaslt = {});
/// The driver's version, such as "13.0", and the number of devices.
struct CudaSystem {
  std::string driver;
  int devices = 0;
};
/// Returns an error that says what is missing if there is no usable driver.
llvm::Expected<CudaSystem> cuda_system();
/// Returns the path of libcublasLt, without creating a handle; returns Unavailable, with a remedy, if
/// it is not found.
llvm::Expected<std::string> cublaslt_path();

}  // namespace minuet
