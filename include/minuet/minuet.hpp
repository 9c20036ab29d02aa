// C++ over minuet.h: owners that release, errors that throw. Header-only; shapes, streams, threads and
// errors are as minuet.h says. Nothing here crosses the ABI but what minuet.h declares.
#ifndef MINUET_MINUET_HPP_
#define MINUET_MINUET_HPP_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "minuet/minuet.h"

namespace minuet {

/// A failed call: its status and the library's message.
class Exception : public std::runtime_error {
 public:
  Exception(minuet_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  minuet_status status() const noexcept { return status_; }

 private:
  minuet_status status_;
};

inline std::string last_error() {
  std::string text(minuet_last_error(nullptr, 0), '\0');
  minuet_last_error(text.data(), text.size());
  text.pop_back();
  return text;
}

inline void check(minuet_status status) {
  if (status != MINUET_OK) throw Exception(status, last_error());
}

namespace detail {
template <class T, void (*Destroy)(T*)>
struct Release {
  void operator()(T* object) const noexcept { Destroy(object); }
};
template <class T, void (*Destroy)(T*)>
using Owner = std::unique_ptr<T, Release<T, Destroy>>;
}  // namespace detail

/// Where kernels are compiled and kept. `cache_directory` empty: the usual place.
class Context {
 public:
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

 private:
  detail::Owner<minuet_context, minuet_context_destroy> owner_;
};

/// "cuda:N", "cpu", or empty for cuda:0 where it is usable, else cpu.
class Device {
 public:
  explicit Device(const Context& context, const std::string& name = {}) {
    minuet_device* device = nullptr;
    check(minuet_device_open(context.get(), name.empty() ? nullptr : name.c_str(), &device));
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

/// `count` elements of T on a device.
template <class T>
class Buffer {
 public:
  Buffer(const Device& device, std::size_t count) : device_(device.get()), count_(count) {
    check(minuet_device_allocate(device_, bytes(), &data_));
  }
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

/// A network: immutable, shared by devices and threads.
class Network {
 public:
  Network(const Context& context, const minuet_network_options& options) {
    minuet_network* network = nullptr;
    check(minuet_network_create(context.get(), &options, &network));
    owner_.reset(network);
  }
  /// A shipped network with weights from a safetensors file, or seeded random ones.
  Network(const Context& context, const std::string& name, minuet_dtype dtype,
          const std::string& weights = {})
      : Network(context, named(name, dtype, weights)) {}

  minuet_network* get() const noexcept { return owner_.get(); }
  minuet_network_info info() const {
    minuet_network_info info{};
    info.struct_size = sizeof(info);
    check(minuet_network_query(get(), &info));
    return info;
  }
  void compile(const std::string& arch, detail::Visitor visit = {}) const {
    check(minuet_network_compile(get(), arch.c_str(), visit ? detail::call_visitor : nullptr, &visit));
  }
  /// Compiles for the device where that has not happened, then loads.
  void load(const Device& device) const {
    compile(device.info().arch);
    check(minuet_network_load(get(), device.get()));
  }

 private:
  static minuet_network_options named(const std::string& name, minuet_dtype dtype,
                                      const std::string& weights) {
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.name = name.c_str();
    options.dtype = dtype;
    options.weights_path = weights.empty() ? nullptr : weights.c_str();
    return options;
  }
  detail::Owner<minuet_network, minuet_network_destroy> owner_;
};

/// One caller's use of a loaded network.
class Execution {
 public:
  Execution(const Network& network, const Device& device,
            const minuet_execution_options& options = MINUET_EXECUTION_OPTIONS_INIT) {
    minuet_execution* execution = nullptr;
    check(minuet_execution_create(network.get(), device.get(), &options, &execution));
    owner_.reset(execution);
  }
  minuet_execution* get() const noexcept { return owner_.get(); }
  /// coordinates: device int32 [count, 1 + ndim]. Returns the output's rows.
  std::int64_t prepare(const std::int32_t* coordinates, std::int64_t count, void* stream = nullptr) const {
    check(minuet_execution_prepare(get(), coordinates, count, stream));
    std::int64_t rows = 0;
    std::int32_t channels = 0;
    check(minuet_execution_output_shape(get(), &rows, &channels));
    return rows;
  }
  void run(const void* features, void* output, void* stream = nullptr) const {
    check(minuet_execution_run(get(), features, output, stream));
  }

 private:
  detail::Owner<minuet_execution, minuet_execution_destroy> owner_;
};

/// Coordinates, kernel map and convolution for callers who build their own networks.
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
  minuet_coordinates* get() const noexcept { return owner_.get(); }
  std::int64_t count() const noexcept { return minuet_coordinates_count(get()); }

 private:
  explicit Coordinates(minuet_coordinates* set) : owner_(set) {}
  detail::Owner<minuet_coordinates, minuet_coordinates_destroy> owner_;
};

class KernelMap {
 public:
  KernelMap(const Coordinates& input, const Coordinates& output, const minuet_kernel_map_options& options,
            void* stream = nullptr) {
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_create(input.get(), output.get(), &options, stream, &map));
    owner_.reset(map);
  }
  minuet_kernel_map* get() const noexcept { return owner_.get(); }
  std::int64_t pairs() const noexcept { return minuet_kernel_map_pairs(get()); }

 private:
  detail::Owner<minuet_kernel_map, minuet_kernel_map_destroy> owner_;
};

class Convolution {
 public:
  Convolution(const Context& context, const minuet_convolution_options& options) {
    minuet_convolution* convolution = nullptr;
    check(minuet_convolution_create(context.get(), &options, &convolution));
    owner_.reset(convolution);
  }
  minuet_convolution* get() const noexcept { return owner_.get(); }
  void load(const Device& device) const {
    check(minuet_convolution_compile(get(), device.info().arch, nullptr, nullptr));
    check(minuet_convolution_load(get(), device.get()));
  }

 private:
  detail::Owner<minuet_convolution, minuet_convolution_destroy> owner_;
};

/// One caller's use of a loaded convolution.
class ConvolutionExecution {
 public:
  ConvolutionExecution(const Convolution& convolution, const Device& device) {
    minuet_execution* execution = nullptr;
    check(minuet_execution_create_convolution(convolution.get(), device.get(), nullptr, &execution));
    owner_.reset(execution);
  }
  minuet_execution* get() const noexcept { return owner_.get(); }
  void prepare(const KernelMap& map, void* stream = nullptr) const {
    check(minuet_execution_prepare_map(get(), map.get(), stream));
  }
  void run(const void* input, void* output, const void* residual = nullptr, void* stream = nullptr) const {
    check(minuet_execution_convolve(get(), input, residual, output, stream));
  }

 private:
  detail::Owner<minuet_execution, minuet_execution_destroy> owner_;
};

}  // namespace minuet

#endif  // MINUET_MINUET_HPP_
