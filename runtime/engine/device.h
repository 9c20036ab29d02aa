// Declares a device with its memory, its loaded kernels and its engines (engine.h). A device is thread-safe,
// because plans and executions share it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/compile/compiler.h"
#include "runtime/engine/callers_allocator.h"
#include "runtime/engine/engine.h"

namespace minuet {

struct DeviceInfo {
  std::string name;         // Holds "cpu" or, for example, "cuda:0".
  std::string description;  // Holds, for example, "NVIDIA H200" or "AMD EPYC, 2 threads, AVX-512".
  std::string arch;    // Holds, for example, "sm_90a". It is empty on the CPU, which compiles no kernels.
  std::string driver;  // Holds the driver's version, for example "13.0". It is empty on the CPU.
  i64 memory_bytes = 0;
  // The following properties are empty or 0 on the CPU. A tuning measurement (codegen/tuning) applies only to
  // devices that have the same properties as the one on which it was made.
  std::string compute_capability;  // Holds, for example, "9.0".
  i64 multiprocessors = 0;
  i64 l2_bytes = 0;
};

/// Returns a newly compiled binary in place of one that the driver refused. The new binary must not come from
/// a cache.
using Reload = std::function<llvm::Expected<std::shared_ptr<const Binary>>(const Binary& refused)>;

/// Provides memory for DeviceMemory, aligned to 256 bytes. A source is a device or the pool of a queue. All
/// functions are thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual llvm::Expected<void*> allocate(i64 bytes) = 0;
  virtual void release(void* memory) = 0;
  /// Returns true if allocate() returns only memory that no enqueued work still uses.
  virtual bool returns_idle_memory() const { return true; }
};

class Device : public MemorySource {
 public:
  virtual const DeviceInfo& info() const = 0;
  /// Returns the type in which the device stores weights of this dtype. CUDA devices store the dtype itself.
  /// The CPU stores fp32 numbers that are already rounded to the dtype.
  virtual DType weight_type(DType dtype) const = 0;

  /// The next two functions are allocate() and release() for memory that is first used, or was last used, on
  /// `stream`. If it is null, the memory must be ready for all streams, or no work may use it any more. A
  /// block of either allocate function can be given to either release function.
  virtual llvm::Expected<void*> allocate_on(void* /*stream*/, i64 bytes) { return allocate(bytes); }
  virtual void release_on(void* /*stream*/, void* memory) { release(memory); }
  /// Returns true if release() itself waits for the work that still uses the memory. This is false if the
  /// memory is the caller's (CallersAllocator), and the owner of memory must then wait before it releases it.
  virtual bool release_waits() const { return true; }

  /// The next three functions copy or clear device memory outside of runs, for example to upload weights
  /// when a plan is loaded. They return when the work is done, and use no stream of the caller.
  virtual llvm::Error upload(void* target, const void* host, i64 bytes) = 0;
  /// Sets `bytes` bytes of device memory to 0. `bytes` must be a multiple of 4.
  virtual llvm::Error clear(void* target, i64 bytes) = 0;
  virtual llvm::Error download(void* host, const void* source, i64 bytes) = 0;
  virtual llvm::Error synchronize(void* stream) = 0;
  /// Returns a stream of the device that callers do not use, so that it is never captured. It is null on the
  /// CPU.
  virtual void* own_stream() const { return nullptr; }

  /// Loads the binaries that are not loaded yet, so that a run loads nothing. If the driver refuses a binary,
  /// this function calls `reload`, which may be empty, at most once for it, and holds no lock meanwhile. If
  /// the driver refuses the replacement too, the function returns that error.
  virtual llvm::Error load(const std::vector<std::shared_ptr<const Binary>>& binaries,
                           const Reload& reload) = 0;
  /// Returns true if warm_up() has work to do for the candidates of an op.
  virtual bool needs_warm_up(llvm::ArrayRef<Candidate>) const { return false; }
  /// Prepares the resources of libraries, such as cuBLASLt, that any candidate of an op needs for any cloud,
  /// so that no later call looks up or loads anything. A repeated call costs nothing. The function is
  /// thread-safe.
  virtual llvm::Error warm_up(llvm::ArrayRef<Candidate>) { return llvm::Error::success(); }
  /// Creates an engine. `share` belongs to the queue through which all calls of the engine go. It is null for
  /// an engine without a queue.
  virtual llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                                std::shared_ptr<EngineShare> share = {}) = 0;
  /// Creates the resources that all engines on one stream share. Returns null if engines of this device share
  /// none.
  virtual llvm::Expected<std::shared_ptr<EngineShare>> create_share() = 0;
};

/// Owns memory from a MemorySource, and releases it in the destructor.
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

/// Opens the CPU as a device; runtime/cpu implements this function. It starts at most cpu_count() threads,
/// because more threads than CPUs only slow each other down. 0 threads means cpu_count(). All memory of the
/// device comes from `allocator`, if it has functions.
llvm::Expected<std::shared_ptr<Device>> open_cpu_device(i32 threads = 0,
                                                        const AllocatorFunctions& allocator = {});
/// Opens a GPU as a device; runtime/cuda implements this function. It returns Unavailable, with the reason
/// and a remedy, if there is no driver or no GPU. `cublaslt` is the path of the cuBLASLt library; if the path
/// is empty, the library is searched for at first use. All memory of the device comes from `allocator`, if it
/// has functions; they are called with the device's context current.
llvm::Expected<std::shared_ptr<Device>> open_cuda_device(int ordinal, std::string cublaslt = {},
                                                         const AllocatorFunctions& allocator = {});
/// Returns a GPU of the architecture `arch`, such as "sm_90a", that needs no driver and no GPU; runtime/cuda
/// implements this function. Its engines only tell how many bytes of device memory they need. All other
/// functions that would use a GPU return Internal. The numbers are at least those of every real GPU of the
/// architecture.
std::shared_ptr<Device> measured_gpu(std::string arch);
/// Holds the driver's version, such as "13.0", and the number of devices.
struct CudaSystem {
  std::string driver;
  int devices = 0;
};
/// Returns an error that says what is missing, if there is no usable driver.
llvm::Expected<CudaSystem> cuda_system();
/// Returns the path of libcublasLt without creating a handle of the library. Returns Unavailable, with a
/// remedy, if the library is not found.
llvm::Expected<std::string> cublaslt_path();

}  // namespace minuet
