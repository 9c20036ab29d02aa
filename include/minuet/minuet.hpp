// Wraps minuet.h, parameters.h and parts of diagnostics.h for C++17. The C headers have the contracts; a
// function without a comment is the C function of that name. C++ adds:
// - Each class owns one object and destroys it; get() lends it to calls of the C ABI. Owners can be moved.
// - A failed call throws Exception (base.hpp). Results are returned. A stream that is left out is null.
// The wrappers are inline, so that only the C ABI is between the program and the library.
#ifndef MINUET_MINUET_HPP_
#define MINUET_MINUET_HPP_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "minuet/base.hpp"
#include "minuet/diagnostics.h"
#include "minuet/parameters.h"

namespace minuet {

/// Owns a minuet_context, which compiles and keeps kernels.
class Context {
 public:
  /// Creates a context with default options. An empty `cache_directory` selects the default folder.
  explicit Context(const std::string& cache_directory = {}) {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    options.cache_directory = cache_directory.empty() ? nullptr : cache_directory.c_str();
    *this = Context(options);
  }
  explicit Context(const minuet_context_options& options) {
    minuet_context* context = nullptr;
    check(minuet_context_create(&options, &context));
    owner_.reset(context);
  }
  minuet_context* get() const noexcept { return owner_.get(); }
  minuet_kernel_counters kernel_counters() const {
    minuet_kernel_counters counters = MINUET_KERNEL_COUNTERS_INIT;
    check(minuet_context_kernel_counters(get(), &counters));
    return counters;
  }
  /// Adds a bundle from a file (minuet_context_add_bundle). If `sha256` is empty, no digest is expected.
  void add_bundle(const std::string& path, const std::string& sha256 = {}) const {
    check(minuet_context_add_bundle(get(), path.c_str(), sha256.empty() ? nullptr : sha256.c_str()));
  }
  /// Adds a bundle from memory, which is copied. If `sha256` is empty, no digest is expected.
  void add_bundle_memory(const void* bytes, std::size_t size, const std::string& sha256 = {}) const {
    check(minuet_context_add_bundle_memory(get(), bytes, size, sha256.empty() ? nullptr : sha256.c_str()));
  }
  void write_trace(const std::string& path) const { check(minuet_context_write_trace(get(), path.c_str())); }

 private:
  detail::Owner<minuet_context, minuet_context_destroy> owner_;
};

/// Owns a minuet_device.
class Device {
 public:
  /// Opens "cuda:N" or "cpu"; an empty name: cuda:0 if it is usable, else cpu. An allocator needs a name.
  explicit Device(const Context& context, const std::string& name = {},
                  const minuet_device_options& options = MINUET_DEVICE_OPTIONS_INIT) {
    minuet_device* device = nullptr;
    check(minuet_device_open(context.get(), name.empty() ? nullptr : name.c_str(), &options, &device));
    owner_.reset(device);
  }
  minuet_device* get() const noexcept { return owner_.get(); }
  minuet_device_info info() const {
    minuet_device_info info{};
    info.struct_size = sizeof(info);
    check(minuet_device_query(get(), &info));
    return info;
  }
  void synchronize(void* stream = nullptr) const { check(minuet_device_synchronize(get(), stream)); }

 private:
  detail::Owner<minuet_device, minuet_device_destroy> owner_;
};

/// Owns device memory for size() elements of T. The device must outlive the buffer.
template <class T>
class Buffer {
 public:
  /// Allocates memory for `count` elements, whose values are undefined.
  Buffer(const Device& device, std::size_t count) : device_(device.get()), count_(count) {
    check(minuet_device_allocate(device_, bytes(), &data_));
  }
  /// Allocates memory and copies `values` to it. Waits for the copy.
  Buffer(const Device& device, const std::vector<T>& values) : Buffer(device, values.size()) {
    check(minuet_device_copy(device_, data_, values.data(), bytes(), 0));
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Buffer() {
    if (data_) minuet_device_free(device_, data_);
  }
  T* get() const noexcept { return static_cast<T*>(data_); }
  std::size_t size() const noexcept { return count_; }
  /// Returns the elements. Waits for the copy, but not for work on any stream (minuet_device_copy).
  std::vector<T> download() const {
    std::vector<T> values(count_);
    check(minuet_device_copy(device_, values.data(), data_, bytes(), 1));
    return values;
  }

 private:
  std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(count_ * sizeof(T)); }
  minuet_device* device_ = nullptr;  // not owned: a buffer must not outlive its device
  void* data_ = nullptr;
  std::size_t count_ = 0;
};

namespace detail {
using Visitor = std::function<void(const minuet_kernel_info&)>;
inline void call_visitor(const minuet_kernel_info* kernel, void* user) {
  (*static_cast<Visitor*>(user))(*kernel);
}
}  // namespace detail

/// Describes a matrix of features in device memory. `row_stride` is in elements; 0: no gaps between rows.
inline minuet_tensor tensor(void* data, std::int64_t rows, std::int32_t channels, minuet_dtype dtype,
                            std::int64_t row_stride = 0) noexcept {
  return {data, rows, row_stride, channels, dtype};
}

/// Owns a minuet_plan: a network or one op.
class Plan {
 public:
  static Plan network(const Context& context, const minuet_network_options& options) {
    minuet_plan* plan = nullptr;
    check(minuet_plan_create_network(context.get(), &options, &plan));
    return Plan(plan);
  }
  /// Creates a plan of a shipped network. `weights` is the path of the file; empty: random weights.
  static Plan network(const Context& context, const std::string& name, minuet_dtype dtype,
                      const std::string& weights = {}) {
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.name = name.c_str();
    options.dtype = dtype;
    options.weights_path = weights.empty() ? nullptr : weights.c_str();
    return network(context, options);
  }
  static Plan convolution(const Context& context, const minuet_convolution_options& options) {
    minuet_plan* plan = nullptr;
    check(minuet_plan_create_convolution(context.get(), &options, &plan));
    return Plan(plan);
  }
  static Plan pooling(const Context& context, const minuet_pooling_options& options) {
    minuet_plan* plan = nullptr;
    check(minuet_plan_create_pooling(context.get(), &options, &plan));
    return Plan(plan);
  }
  /// Creates the plan from bytes that serialize() returned, here or in another process.
  static Plan deserialize(const Context& context, const void* bytes, std::size_t size) {
    minuet_plan* plan = nullptr;
    check(minuet_plan_deserialize(context.get(), bytes, size, &plan));
    return Plan(plan);
  }

  /// Takes ownership of a plan that a function of another header has made.
  static Plan take(minuet_plan* plan) { return Plan(plan); }

  minuet_plan* get() const noexcept { return owner_.get(); }
  /// Returns the plan as bytes, with the kernels for these architectures. Compiles those that are missing.
  std::vector<unsigned char> serialize(const std::vector<std::string>& archs = {}) const {
    std::vector<const char*> names;
    names.reserve(archs.size());
    for (const std::string& arch : archs) names.push_back(arch.c_str());
    const char* const* const list = names.empty() ? nullptr : names.data();
    const auto count = static_cast<std::int32_t>(names.size());
    std::size_t size = 0;
    check(minuet_plan_serialize(get(), list, count, 0, nullptr, 0, &size));
    std::vector<unsigned char> bytes(size);
    check(minuet_plan_serialize(get(), list, count, 0, bytes.data(), size, &size));
    return bytes;
  }
  minuet_plan_info info() const {
    minuet_plan_info info{};
    info.struct_size = sizeof(info);
    check(minuet_plan_query(get(), &info));
    return info;
  }
  /// Returns the info of a parameter, numbered from 0 to info().parameter_tensors - 1.
  minuet_parameter_info parameter(std::int32_t number) const {
    return detail::told<minuet_parameter_info>(minuet_plan_query_parameter, get(), number);
  }
  /// Returns the info of an input, numbered from 0 to info().inputs - 1; output() does the same.
  minuet_tensor_info input(std::int32_t number) const {
    return detail::told<minuet_tensor_info>(minuet_plan_query_input, get(), number);
  }
  minuet_tensor_info output(std::int32_t number) const {
    return detail::told<minuet_tensor_info>(minuet_plan_query_output, get(), number);
  }
  /// Returns the description of a network as JSON, or "" for a plan of one op.
  std::string description() const {
    std::string text(minuet_plan_description(get(), nullptr, 0), '\0');
    minuet_plan_description(get(), text.data(), text.size());
    text.pop_back();
    return text;
  }
  /// Compiles the plan. `visit` is called once for each kernel, and must not throw.
  void compile(const std::string& arch, detail::Visitor visit = {}) const {
    check(minuet_plan_compile(get(), arch.c_str(), visit ? detail::call_visitor : nullptr, &visit));
  }
  /// Compiles the plan for the device if needed, and loads it there.
  void load(const Device& device) const {
    compile(device.info().arch);
    check(minuet_plan_load(get(), device.get()));
  }
  /// Returns minuet_plan_workspace_bytes. With level_capacity in `options`, the last two arguments are 0.
  std::int64_t workspace_bytes(const std::string& arch, const minuet_execution_options& options,
                               std::int64_t max_points = 0, double max_neighbours = 0) const {
    std::int64_t bytes = 0;
    check(minuet_plan_workspace_bytes(get(), arch.c_str(), &options, max_points, max_neighbours, &bytes));
    return bytes;
  }

 private:
  explicit Plan(minuet_plan* plan) : owner_(plan) {}
  detail::Owner<minuet_plan, minuet_plan_destroy> owner_;
};

/// Describes an array without strides. Throws for more than 6 axes.
inline minuet_array array(void* data, std::initializer_list<std::int64_t> shape, minuet_element element,
                          bool on_host = false) {
  minuet_array array{};
  array.data = data;
  array.rank = static_cast<std::int32_t>(shape.size());
  if (shape.size() > MINUET_MAX_RANK) throw Exception(MINUET_INVALID_ARGUMENT, "an array has at most 6 axes");
  std::copy(shape.begin(), shape.end(), array.shape);
  array.element = element;
  array.on_host = on_host ? 1 : 0;
  return array;
}

/// Owns a minuet_parameters, which executions and runs take as `parameters`.
class Parameters {
 public:
  Parameters(const Plan& plan, const Device& device,
             const minuet_parameters_options& options = MINUET_PARAMETERS_OPTIONS_INIT) {
    minuet_parameters* parameters = nullptr;
    check(minuet_parameters_create(plan.get(), device.get(), &options, &parameters));
    owner_.reset(parameters);
  }
  minuet_parameters* get() const noexcept { return owner_.get(); }
  /// Sets parameter indices[i] to values[i]. Empty `indices` are those of the first parameters.
  void set(const std::vector<std::int32_t>& indices, const std::vector<minuet_array>& values,
           minuet_weights_order order = MINUET_WEIGHTS_MINUET, void* stream = nullptr) const {
    if (!indices.empty() && indices.size() != values.size())
      throw Exception(MINUET_INVALID_ARGUMENT, "as many indices as values are needed, or none");
    check(minuet_parameters_set(get(), indices.empty() ? nullptr : indices.data(), values.data(),
                                static_cast<std::int32_t>(values.size()), order, stream));
  }
  void get(std::int32_t parameter, const minuet_array& value, void* stream = nullptr) const {
    check(minuet_parameters_get(get(), parameter, &value, stream));
  }
  void release_captures() const { check(minuet_parameters_release_captures(get())); }

 private:
  detail::Owner<minuet_parameters, minuet_parameters_destroy> owner_;
};

/// Owns a minuet_queue, which coordinate sets, kernel maps and executions take as `queue`.
class Queue {
 public:
  explicit Queue(const Device& device, void* stream = nullptr) {
    minuet_queue* queue = nullptr;
    check(minuet_queue_create(device.get(), stream, &queue));
    owner_.reset(queue);
  }
  minuet_queue* get() const noexcept { return owner_.get(); }

 private:
  detail::Owner<minuet_queue, minuet_queue_destroy> owner_;
};

/// Owns a minuet_coordinates: a coordinate set, for programs that build their own networks of single ops.
class Coordinates {
 public:
  Coordinates(const Device& device, const minuet_coordinates_options& options,
              const std::int32_t* coordinates, std::int64_t count, void* stream = nullptr) {
    minuet_coordinates* set = nullptr;
    check(minuet_coordinates_create(device.get(), &options, coordinates, count, stream, &set));
    owner_.reset(set);
  }
  Coordinates downsample(const std::int32_t (&stride)[MINUET_MAX_DIM], void* stream = nullptr) const {
    minuet_coordinates* set = nullptr;
    check(minuet_coordinates_downsample(get(), stride, stream, &set));
    return Coordinates(set);
  }
  Coordinates reach(const minuet_reach_options& options, void* stream = nullptr) const {
    minuet_coordinates* set = nullptr;
    check(minuet_coordinates_reach(get(), &options, stream, &set));
    return Coordinates(set);
  }
  /// Takes ownership of a set.
  static Coordinates take(minuet_coordinates* set) { return Coordinates(set); }
  minuet_coordinates* get() const noexcept { return owner_.get(); }
  /// Returns the number of different coordinates. Throws if the device fails, as rows() does.
  std::int64_t count() const { return counted(minuet_coordinates_count(get())); }
  std::int64_t rows() const { return counted(minuet_coordinates_rows(get())); }
  /// Copies the coordinates to device memory, int32 [rows, 1 + ndim] (minuet_coordinates_export).
  void export_to(std::int32_t* coordinates, void* stream = nullptr) const {
    check(minuet_coordinates_export(get(), coordinates, stream));
  }

 private:
  explicit Coordinates(minuet_coordinates* set) : owner_(set) {}
  static std::int64_t counted(std::int64_t rows) {
    if (rows < 0) check(MINUET_INTERNAL);
    return rows;
  }
  detail::Owner<minuet_coordinates, minuet_coordinates_destroy> owner_;
};

/// Owns a minuet_kernel_map, which keeps its coordinate sets alive.
class KernelMap {
 public:
  KernelMap(const Coordinates& input, const Coordinates& output, const minuet_kernel_map_options& options,
            void* stream = nullptr) {
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_create(input.get(), output.get(), &options, stream, &map));
    owner_.reset(map);
  }
  /// Returns the map of the other direction, for a transposed convolution. Both maps share their memory.
  KernelMap transpose() const {
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_transpose(get(), &map));
    return KernelMap(map);
  }
  minuet_kernel_map* get() const noexcept { return owner_.get(); }
  std::int32_t volume() const noexcept { return minuet_kernel_map_volume(get()); }
  /// Returns the number of pairs of all offsets. It may wait (minuet_kernel_map_query_pairs).
  std::int64_t pairs() const {
    std::int64_t pairs = 0;
    check(minuet_kernel_map_query_pairs(get(), &pairs));
    return pairs;
  }
  /// Returns (k, input row, output row) of each pair, in ascending order of k. Waits.
  std::vector<std::array<std::int32_t, 3>> export_pairs(void* stream = nullptr) const {
    std::vector<std::array<std::int32_t, 3>> rows(static_cast<std::size_t>(pairs()));
    check(minuet_kernel_map_export(get(), rows.empty() ? nullptr : rows.front().data(), stream));
    return rows;
  }

 private:
  explicit KernelMap(minuet_kernel_map* map) : owner_(map) {}
  detail::Owner<minuet_kernel_map, minuet_kernel_map_destroy> owner_;
};

/// Owns a minuet_execution: one caller's use of a loaded plan. It serves one call at a time.
class Execution {
 public:
  Execution(const Plan& plan, const Device& device,
            const minuet_execution_options& options = MINUET_EXECUTION_OPTIONS_INIT) {
    minuet_execution* execution = nullptr;
    check(minuet_execution_create(plan.get(), device.get(), &options, &execution));
    owner_.reset(execution);
  }
  minuet_execution* get() const noexcept { return owner_.get(); }
  minuet_execution_info query() const {
    minuet_execution_info info = MINUET_EXECUTION_INFO_INIT;
    check(minuet_execution_query(get(), &info));
    return info;
  }
  /// Replaces the memory of the execution. Waits for the stream. Afterwards nothing is prepared.
  void set_workspace(void* workspace, std::int64_t bytes, void* stream = nullptr) const {
    check(minuet_execution_set_workspace(get(), workspace, bytes, stream));
  }
  /// Prepares a cloud, device memory int32 [count, 1 + ndim]. Returns the rows of the first output.
  std::int64_t prepare(const std::int32_t* coordinates, std::int64_t count, void* stream = nullptr) const {
    check(minuet_execution_prepare(get(), coordinates, count, stream));
    return output_rows();
  }
  /// Prepares a cloud in capacity mode. `count` is device memory (minuet_execution_prepare_on_device).
  void prepare_on_device(const std::int32_t* coordinates, const std::int32_t* count,
                         void* stream = nullptr) const {
    check(minuet_execution_prepare_on_device(get(), coordinates, count, stream));
  }
  /// Points to device memory that each prepare writes in capacity mode. It belongs to the execution.
  struct CloudOnDevice {
    const std::uint32_t* status = nullptr;
    const std::int32_t* counts = nullptr;  // [1 + levels]
  };
  CloudOnDevice query_cloud() const {
    CloudOnDevice cloud;
    check(minuet_execution_query_cloud(get(), &cloud.status, &cloud.counts));
    return cloud;
  }
  /// Enqueues a copy of both to the caller's device memory. `counts` has [1 + levels] elements, or is null.
  void copy_cloud(std::uint32_t* status, std::int32_t* counts, std::int32_t levels,
                  void* stream = nullptr) const {
    check(minuet_execution_copy_cloud(get(), status, counts, counts ? 1 + levels : 0, stream));
  }
  struct Cloud {
    std::uint32_t status = 0;  // MINUET_CLOUD_... bits
    std::vector<std::int32_t> counts;
  };
  /// Returns the status and the counts of a network with `levels` levels. Waits.
  Cloud read_cloud(std::int32_t levels, void* stream = nullptr) const {
    Cloud cloud{0, std::vector<std::int32_t>(1 + static_cast<std::size_t>(levels))};
    check(minuet_execution_read_cloud(get(), &cloud.status, cloud.counts.data(), 1 + levels, stream));
    return cloud;
  }
  /// Returns one capacity for each level: `factor` times the prepared cloud's voxels, in exact mode.
  std::vector<std::int64_t> suggest_capacities(double factor, std::int32_t levels) const {
    std::vector<std::int64_t> capacities(static_cast<std::size_t>(levels));
    check(minuet_execution_suggest_capacities(get(), factor, capacities.data(), levels));
    return capacities;
  }
  /// Prepares the maps of a single op (minuet_execution_prepare_maps). Returns the rows of the output.
  std::int64_t prepare_maps(std::initializer_list<std::reference_wrapper<const KernelMap>> maps,
                            void* stream = nullptr) const {
    std::vector<minuet_kernel_map*> handles;
    for (const KernelMap& map : maps) handles.push_back(map.get());
    check(minuet_execution_prepare_maps(get(), handles.data(), static_cast<std::int32_t>(handles.size()),
                                        stream));
    return output_rows();
  }
  /// Prepares many executions of one queue, each with its map (minuet_executions_prepare_maps).
  static void prepare_maps(const std::vector<std::pair<const Execution*, const KernelMap*>>& each,
                           void* stream = nullptr) {
    std::vector<minuet_execution*> executions;
    std::vector<minuet_kernel_map*> maps;
    for (const auto& [execution, map] : each) {
      executions.push_back(execution->get());
      maps.push_back(map->get());
    }
    check(minuet_executions_prepare_maps(executions.data(), maps.data(),
                                         static_cast<std::int32_t>(each.size()), stream));
  }
  /// Enqueues a run. Inputs are those of the network, or the op's input and its residual, if it has one.
  void run(const std::vector<minuet_tensor>& inputs, const std::vector<minuet_tensor>& outputs,
           void* stream = nullptr) const {
    check(minuet_execution_run(get(), inputs.data(), static_cast<std::int32_t>(inputs.size()), outputs.data(),
                               static_cast<std::int32_t>(outputs.size()), stream));
  }
  void run(const std::vector<minuet_tensor>& inputs, const minuet_tensor& output,
           void* stream = nullptr) const {
    check(minuet_execution_run(get(), inputs.data(), static_cast<std::int32_t>(inputs.size()), &output, 1,
                               stream));
  }
  /// Enqueues a run with arrays in place of matrices, for outputs of other elements too.
  void run_arrays(const std::vector<minuet_array>& inputs, const std::vector<minuet_array>& outputs,
                  void* stream = nullptr) const {
    check(minuet_execution_run_arrays(get(), inputs.data(), static_cast<std::int32_t>(inputs.size()),
                                      outputs.data(), static_cast<std::int32_t>(outputs.size()), stream));
  }
  /// Enqueues a copy of an output's coordinates to device memory, int32 [output rows, 1 + ndim of its level].
  void output_coordinates(std::int32_t* coordinates, void* stream = nullptr, std::int32_t output = 0) const {
    check(minuet_execution_output_coordinates_of(get(), output, coordinates, stream));
  }
  std::int64_t output_rows(std::int32_t output = 0) const {
    std::int64_t rows = 0;
    std::int32_t channels = 0;
    check(minuet_execution_output_shape_of(get(), output, &rows, &channels));
    return rows;
  }
  /// Returns the first layer that wrote a number outside the range of its dtype, or -1. Waits.
  std::int32_t find_overflow(void* stream = nullptr) const {
    std::int32_t layer = -1;
    check(minuet_execution_find_overflow(get(), stream, &layer));
    return layer;
  }
  void release_captures() const { check(minuet_execution_release_captures(get())); }

  minuet_execution_counters counters() const {
    minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;
    check(minuet_execution_query_counters(get(), &counters));
    return counters;
  }
  void reset_counters() const { check(minuet_execution_reset_counters(get())); }
  void set_profiling(bool on) const { check(minuet_execution_set_profiling(get(), on ? 1 : 0)); }
  minuet_stage_times stages() const {
    minuet_stage_times times = MINUET_STAGE_TIMES_INIT;
    check(minuet_execution_query_stages(get(), &times));
    return times;
  }
  minuet_level_info level(std::int32_t number) const {
    return detail::told<minuet_level_info>(minuet_execution_query_level, get(), number);
  }
  minuet_layer_info layer(std::int32_t number) const {
    return detail::told<minuet_layer_info>(minuet_execution_query_layer, get(), number);
  }

 private:
  detail::Owner<minuet_execution, minuet_execution_destroy> owner_;
};

}  // namespace minuet

#endif  // MINUET_MINUET_HPP_
