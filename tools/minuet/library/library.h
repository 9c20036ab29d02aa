// Wraps calls of libminuet with owning handles, conversion of statuses to errors, and options filled from
// flags.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "minuet/diagnostics.h"
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

/// Converts a status to an error with the last error's text. RESOURCE_EXHAUSTED becomes OutOfMemory. INTERNAL
/// gives exit code 1, and all other statuses give 2.
llvm::Error check(minuet_status status);
/// Works like check(), for a call that writes a file. There FAILED_PRECONDITION means that the system refused
/// the write, and gives exit code 1.
llvm::Error check_writing(minuet_status status);
/// Returns the text of the last error on one line, with options of the API named as flags.
std::string last_error_text();
/// Returns the log of the compiler or driver that belongs to the last error, or an empty string.
std::string last_error_detail();

/// Owns a piece of device memory. An object must not outlive the device.
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

/// Holds the values of the flags that choose a device.
struct DeviceChoice {
  /// Holds "cuda:N" or "cpu". An empty name means cuda:0 if it is usable, and otherwise cpu.
  std::string name;
  int threads = 0;  ///< Counts the threads of the CPU device. The value 0 means that the library decides.
};
/// Limits the value of cpu_threads in minuet_context_options.
inline constexpr int kMostThreads = 4096;

/// Holds the values of the flags that choose a network.
struct NetworkChoice {
  std::string network = "minkunet42";  ///< Names a shipped network or a JSON file.
  /// Holds the JSON text of a description that takes the place of that of `network`, or is empty.
  std::string description;
  /// Lists the channel widths of the network. An empty list means those of its description.
  std::vector<int32_t> channels;
  /// Holds the cells of the network's input along each axis. An empty list means those of its description.
  std::vector<int32_t> shape;
  /// Tells whether an execution needs the number of batch items, because the network's input has a shape or
  /// because the network pools whole batch items.
  bool needs_batch_size = false;
  int32_t in_channels = 0;  ///< Counts the input channels. The value 0 means as many as described.
  /// Names a safetensors file or a PyTorch checkpoint. An empty name means random weights.
  std::string weights;
  uint64_t weights_seed = 0;
  /// Names the engine whose order the weights have, for example "spconv". An empty name means the order that
  /// the network's description gives.
  std::string weights_order;
  /// Holds the text, for example "module.", that is removed from the start of all tensor names in the weights
  /// file.
  std::string weights_prefix;
  /// Names the dict of a checkpoint that has the tensors, for example "model_state". An empty name means that
  /// the library finds it.
  std::string weights_key;
  /// Names a JSON file that maps tensor names in the weights file to names in the network.
  std::string weights_map;
  bool allow_unused = false;
  bool allow_non_finite_parameters = false;
  /// Names a dataflow, for example "fused". An empty name means that the library chooses the one that should
  /// be faster.
  std::string dataflow;
};

/// Holds the values of the flags that say how to run a network.
struct ExecutionChoice {
  bool keep_first_duplicate = false;
  /// Names a map method, for example "indexed". An empty name means that the library chooses.
  std::string maps;
  /// Selects inferences in capacity mode, in which all buffers have fixed sizes (library/replay.h). On a GPU
  /// each of them replays a CUDA graph.
  bool replay = false;
  /// Counts the batch items of each cloud. The value 0 means that the number is not declared, which a network
  /// with a dense tensor needs.
  int64_t batch_size = 0;
};

/// Holds the library's options for a NetworkChoice. `options` points into this object's strings and into the
/// choice.
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

/// Holds the options of a context. The context prints the library's warnings to stderr.
struct ContextChoice {
  std::string cache;       ///< Names the cache folder. An empty name means the library's default.
  bool trace = false;      ///< Records times for minuet_context_write_trace.
  bool must_jit = false;   ///< Compiles even if MINUET_NO_JIT is set.
  bool read_only = false;  ///< Keeps the cache from evicting kernels, for commands that use no kernels.
  int threads = 0;         ///< Counts the threads of the CPU device.
};
llvm::Expected<ContextHandle> open_context(const ContextChoice& choice);
/// Returns `cache`, or else MINUET_CACHE_DIR, as an absolute path. Returns an empty string if neither is set.
llvm::Expected<std::string> absolute_cache_folder(const std::string& cache);
/// Opens a device and fills `facts`. `context` must have been opened with choice.threads. Returns an error if
/// threads are given and the device is a GPU.
llvm::Expected<DeviceHandle> open_device(minuet_context* context, const DeviceChoice& choice,
                                         DeviceFacts& facts);
/// Holds an open device and its context. Members are released in reverse order, so the device is released
/// before the context.
struct Session {
  ContextHandle context;
  DeviceFacts facts;
  DeviceHandle device;
};
/// Opens a context for device.threads CPU threads, and opens the device.
llvm::Expected<Session> open_session(ContextChoice context, const DeviceChoice& device);
/// Returns a description of the machine, with its devices, driver and NVRTC, and what is missing.
llvm::Expected<minuet_system_info> query_system();
/// Returns the flag's dtype. An empty flag means fp16 on a GPU and fp32 on the CPU.
llvm::Expected<minuet_dtype> dtype_for(const std::string& flag, bool is_cpu);
/// Loads the device's tuning results. Networks that are opened later use them.
llvm::Error load_tuning(const Session& session);
/// Returns an error unless a loaded tuning result applies to one of the plan's layers.
llvm::Error check_tuned(minuet_plan* plan);
/// Returns an error with the names of the shipped networks unless `network` is one of them or a file.
llvm::Error check_network_name(const std::string& network);
llvm::Error fill_network_options(const NetworkChoice& choice, minuet_dtype dtype, NetworkOptions& filled);
/// Puts the path of the network's description in front of the error's text if the network is a file.
llvm::Error in_network(const NetworkChoice& choice, llvm::Error error);
llvm::Expected<PlanHandle> open_network(minuet_context* context, const NetworkChoice& choice,
                                        minuet_dtype dtype, minuet_plan_info& info);
/// Returns the sentence "the head of NAME is left out: ..." for a network without a head.
std::string missing_head_text(const minuet_plan_info& network);
/// Compiles the network's kernels for `arch` and appends each of them to `kernels`.
llvm::Error compile_network(minuet_plan* network, const std::string& arch, std::vector<KernelFacts>& kernels);
llvm::Error fill_execution_options(const ExecutionChoice& choice, minuet_execution_options& options);
llvm::Expected<ExecutionHandle> open_execution(minuet_plan* network, minuet_device* device,
                                               int64_t max_points, const ExecutionChoice& choice);
/// Returns the cache folder, or "" if kernels are kept in memory only.
std::string cache_folder(minuet_context* context);

/// Holds a cloud in device memory, ready for an inference.
struct DeviceCloud {
  DeviceBuffer coordinates, memory;
  minuet_tensor features;     ///< Its data are in `memory`.
  bool holds_points = false;  ///< Says whether the rows are points, which have no coordinates.
  const int32_t* rows() const { return static_cast<const int32_t*>(coordinates.get()); }
};
llvm::Expected<DeviceBuffer> upload_coordinates(minuet_device* device, const VoxelCloud& cloud);
llvm::Expected<DeviceCloud> upload_cloud(minuet_device* device, const VoxelCloud& cloud, minuet_dtype dtype);
/// Returns a minuet_tensor for contiguous rows of features or of an output.
minuet_tensor dense_tensor(void* data, int64_t rows, int32_t channels, minuet_dtype dtype);

}  // namespace minuet::tool
