// libminuet as the tool uses it: owning handles, and statuses turned into errors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "minuet/minuet.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

template <class T, void (*Destroy)(T*)>
struct Release {
  void operator()(T* object) const { Destroy(object); }
};
using ContextHandle = std::unique_ptr<minuet_context, Release<minuet_context, minuet_context_destroy>>;
using DeviceHandle = std::unique_ptr<minuet_device, Release<minuet_device, minuet_device_destroy>>;
using PlanHandle = std::unique_ptr<minuet_plan, Release<minuet_plan, minuet_plan_destroy>>;
using ExecutionHandle =
    std::unique_ptr<minuet_execution, Release<minuet_execution, minuet_execution_destroy>>;
using CoordinatesHandle =
    std::unique_ptr<minuet_coordinates, Release<minuet_coordinates, minuet_coordinates_destroy>>;
using MapHandle = std::unique_ptr<minuet_kernel_map, Release<minuet_kernel_map, minuet_kernel_map_destroy>>;

/// The last error's text where `status` is not OK: OutOfMemory of RESOURCE_EXHAUSTED. INTERNAL gives exit
/// code 1, all others 2.
llvm::Error check(minuet_status status);
/// The same of a call that writes a file, where FAILED_PRECONDITION is the system's refusal: exit code 1 too.
llvm::Error check_writing(minuet_status status);
/// Its text alone, on one line.
std::string last_error_text();
/// The compiler's or driver's log behind the last error, or empty.
std::string last_error_detail();

/// Memory of a device, freed with it. Must not outlive the device.
class DeviceBuffer {
 public:
  static llvm::Expected<DeviceBuffer> allocate(minuet_device* device, size_t bytes);
  static llvm::Expected<DeviceBuffer> upload(minuet_device* device, const void* data, size_t bytes);
  llvm::Error download(void* target) const;
  void* get() const { return memory_.get(); }

 private:
  struct Free {
    minuet_device* device;
    void operator()(void* memory) const { minuet_device_free(device, memory); }
  };
  DeviceBuffer(minuet_device* device, void* memory, size_t bytes)
      : memory_(memory, Free{device}), bytes_(bytes) {}

  std::unique_ptr<void, Free> memory_;
  size_t bytes_;
};

struct DeviceFacts {
  std::string name, description, arch;
  int64_t memory_bytes = 0;
  bool is_cpu() const { return name == "cpu"; }
};

/// The values of the flags that choose a device.
struct DeviceChoice {
  std::string name;  ///< "cuda:N" or "cpu"; empty: cuda:0 where usable, else cpu
  int threads = 0;   ///< of the CPU device; 0: the library decides
};
/// As minuet_context_options takes cpu_threads.
inline constexpr int kMostThreads = 4096;

/// The values of the flags that choose a network.
struct NetworkChoice {
  std::string network = "minkunet42";  ///< a shipped name or a JSON file
  std::vector<int32_t> channels;       ///< empty: as described
  std::string weights;                 ///< safetensors; empty: seeded random
  uint64_t weights_seed = 0;
  std::string weights_order;   ///< "spconv"; empty: as described
  std::string weights_prefix;  ///< "module."
  std::string weights_map;     ///< a JSON file
  bool allow_unused = false;
  bool allow_non_finite_parameters = false;
  std::string dataflow;  ///< "fused"; empty: by what is expected to be faster
};

/// The values of the flags that choose an execution.
struct ExecutionChoice {
  bool keep_first_duplicate = false;
  std::string maps;     ///< "indexed"; empty: as the library chooses
  bool replay = false;  ///< in capacity mode, as graphs
};

/// What the library takes for a choice. `options` points into the strings beside it and into the choice.
struct NetworkOptions {
  NetworkOptions() = default;
  NetworkOptions(const NetworkOptions&) = delete;
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  std::string description, weights_map;
};

struct KernelFacts {
  explicit KernelFacts(const minuet_kernel_info& kernel)
      : name(kernel.name),
        origin(kernel.origin),
        registers(kernel.registers),
        shared_bytes(kernel.shared_bytes),
        cubin_bytes(kernel.cubin_bytes),
        compile_ms(kernel.compile_ms) {}
  std::string name, origin;
  int registers, shared_bytes;
  int64_t cubin_bytes;
  double compile_ms;
};

/// The library's warnings go to stderr.
struct ContextChoice {
  std::string cache;        ///< folder; empty: the library's default
  bool trace = false;       ///< times are kept for minuet_context_write_trace
  bool must_jit = false;    ///< whatever MINUET_NO_JIT says
  bool only_looks = false;  ///< The command uses no kernel, so none may be removed from the folder.
  int threads = 0;          ///< of the CPU device
};
llvm::Expected<ContextHandle> open_context(const ContextChoice& choice);
/// --cache, else MINUET_CACHE_DIR, as an absolute path; empty where neither is given.
llvm::Expected<std::string> absolute_cache_folder(const std::string& cache);
/// `context` was opened with the choice's threads. An error where they are given and the device is a GPU.
llvm::Expected<DeviceHandle> open_device(minuet_context* context, const DeviceChoice& choice,
                                         DeviceFacts& facts);
/// An opened device. Members are released in reverse order.
struct Session {
  ContextHandle context;
  DeviceFacts facts;
  DeviceHandle device;
};
/// The context gets the device's threads.
llvm::Expected<Session> open_session(ContextChoice context, const DeviceChoice& device);
/// Describes the machine: devices, driver, NVRTC, and what is missing.
llvm::Expected<minuet_system_info> query_system();
/// The flag's dtype, or fp16 on a GPU and fp32 on the CPU where the flag is empty.
llvm::Expected<minuet_dtype> dtype_for(const std::string& flag, bool is_cpu);
/// Networks that are opened from now on go by what was measured on the device.
llvm::Error load_tuning(const Session& session);
/// That there are results for it.
llvm::Error check_tuned(minuet_plan* plan);
llvm::Error fill_network_options(const NetworkChoice& choice, minuet_dtype dtype, NetworkOptions& filled);
/// Puts the network's file in front of an error about it.
llvm::Error in_network(const NetworkChoice& choice, llvm::Error error);
llvm::Expected<PlanHandle> open_network(minuet_context* context, const NetworkChoice& choice,
                                        minuet_dtype dtype, minuet_plan_info& info);
/// "the head of NAME is left out: ...", where it is.
std::string missing_head_text(const minuet_plan_info& network);
/// Compiles for `arch` and tells of every kernel.
llvm::Error compile_network(minuet_plan* network, const std::string& arch, std::vector<KernelFacts>& kernels);
llvm::Error fill_execution_options(const ExecutionChoice& choice, minuet_execution_options& options);
llvm::Expected<ExecutionHandle> open_execution(minuet_plan* network, minuet_device* device,
                                               int64_t max_points, const ExecutionChoice& choice);
/// "" where kernels live in memory only.
std::string cache_folder(minuet_context* context);

/// A cloud in device memory, as an inference takes it.
struct DeviceCloud {
  DeviceBuffer coordinates, memory;
  minuet_tensor features;  ///< in `memory`
  const int32_t* rows() const { return static_cast<const int32_t*>(coordinates.get()); }
};
llvm::Expected<DeviceBuffer> upload_coordinates(minuet_device* device, const VoxelCloud& cloud);
llvm::Expected<DeviceCloud> upload_cloud(minuet_device* device, const VoxelCloud& cloud, minuet_dtype dtype);
/// Room for the output of any cloud of so many voxels: no level has more.
llvm::Expected<DeviceBuffer> allocate_output(minuet_device* device, int64_t voxels,
                                             const minuet_plan_info& network);

/// Rows of a network's features or output that lie one behind the other.
minuet_tensor dense_tensor(void* data, int64_t rows, int32_t channels, minuet_dtype dtype);
/// Runs for what is prepared; `output` has room for the rows that the execution tells, in the features'
/// dtype.
llvm::Error enqueue(minuet_execution* execution, const minuet_tensor& features, void* output);
/// prepare, run, synchronize: one inference from device memory to device memory.
llvm::Error infer(minuet_execution* execution, minuet_device* device, const DeviceCloud& cloud, void* output);

}  // namespace minuet::tool
