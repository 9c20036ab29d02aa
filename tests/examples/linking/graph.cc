// Runs a network in capacity mode from two threads. Each thread has its own execution and stream. On a GPU it
// captures prepare and run in one CUDA graph, which it replays for clouds of different sizes; on the CPU it
// makes the same calls.
//
//   graph DEVICE     for example: graph cpu, or graph cuda:0
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <minuet/minuet.hpp>
#include <thread>

namespace {

// The program opens the driver with dlopen, so that it can be built without CUDA. A program with CUDA code of
// its own calls the runtime API (cudaStreamBeginCapture, cudaGraphLaunch) in the same places.
class Driver {
 public:
  explicit Driver(bool is_gpu) : library_(is_gpu ? dlopen("libcuda.so.1", RTLD_NOW) : nullptr) {}
  explicit operator bool() const { return library_ != nullptr; }
  // Makes the device's primary context current in this thread, as cudaSetDevice does.
  void use_device(const minuet::Device& device) const {
    int handle = 0;
    void* context = nullptr;
    call("cuDeviceGet", &handle, std::atoi(device.info().name + std::strlen("cuda:")));
    call("cuDevicePrimaryCtxRetain", &context, handle);
    call("cuCtxPushCurrent_v2", context);
  }
  template <class... Types>
  void call(const char* name, Types... values) const {
    int (*function)(Types...) = nullptr;
    void* const found = dlsym(library_, name);
    std::memcpy(&function, &found, sizeof(found));
    if (function == nullptr || function(values...) != 0)
      throw std::runtime_error(std::string(name) + " failed");
  }

 private:
  void* library_;
};

struct Cloud {
  std::vector<std::int32_t> coordinates;
  std::vector<float> features;
  std::int32_t count;
};

Cloud make_cloud(std::int32_t count) {
  Cloud cloud{{}, {}, count};
  for (std::int32_t i = 0; i < count; ++i) {
    cloud.coordinates.insert(cloud.coordinates.end(), {0, i % 20, i / 20, i * 7 % 5});
    for (int channel = 0; channel < 4; ++channel) {
      cloud.features.push_back(static_cast<float>(i % (7 + channel)) / 8);
    }
  }
  return cloud;
}

// Exact mode: the host knows how large each cloud is. It gives the capacities, and results to compare with.
std::vector<float> run_exactly(const minuet::Device& device, const minuet::Execution& execution,
                               const Cloud& cloud) {
  const minuet::Buffer<std::int32_t> coordinates(device, cloud.coordinates);
  const std::int64_t rows = execution.prepare(coordinates.get(), cloud.count);
  const minuet::Buffer<float> in(device, cloud.features), out(device, static_cast<std::size_t>(rows * 8));
  execution.run({minuet::tensor(in.get(), rows, 4, MINUET_F32)},
                minuet::tensor(out.get(), rows, 8, MINUET_F32));
  device.synchronize();
  return out.download();
}

class Worker {
 public:
  Worker(const minuet::Device& device, const minuet::Plan& plan, const minuet_execution_options& options,
         const Driver& driver)
      : device_(device),
        driver_(driver),
        levels_(options.level_count),
        capacity_(options.level_capacity[0]),
        execution_(plan, device, options),
        coordinates_(device, 4 * size()),
        count_(device, 1),
        in_(device, 4 * size()),
        out_(device, 8 * size()) {
    if (driver_) {
      driver_.use_device(device);
      driver_.call("cuStreamCreate", &stream_, 1u);  // 1: the default stream does not wait for it
    }
    write(make_cloud(1));
    enqueue();  // Allocates what the first call needs, so that the capture finds it.
    device_.synchronize(stream_);
    if (!driver_) return;
    void* graph = nullptr;
    driver_.call("cuStreamBeginCapture_v2", stream_, 1);  // 1: only calls of this thread matter
    enqueue();
    driver_.call("cuStreamEndCapture", stream_, &graph);
    driver_.call("cuGraphInstantiateWithFlags", &replay_, graph, 0ull);
    driver_.call("cuGraphDestroy", graph);
  }
  Worker(const Worker&) = delete;
  ~Worker() {
    if (replay_ != nullptr) driver_.call("cuGraphExecDestroy", replay_);
    if (stream_ != nullptr) driver_.call("cuStreamDestroy_v2", stream_);
  }

  // Returns the status bits of the cloud, 0 if it fits. Rows past the cloud's count are zeros in `result`.
  std::uint32_t infer(const Cloud& cloud, std::vector<float>& result) {
    write(cloud);
    if (replay_ != nullptr) {
      driver_.call("cuGraphLaunch", replay_, stream_);
    } else {
      enqueue();
    }
    const std::uint32_t status = execution_.read_cloud(levels_, stream_).status;  // waits for the stream
    result = out_.download();
    return status;
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(capacity_); }
  void write(const Cloud& cloud) {
    const std::int64_t rows = std::min<std::int64_t>(cloud.count, capacity_);
    minuet::check(
        minuet_device_copy(device_.get(), coordinates_.get(), cloud.coordinates.data(), rows * 16, 0));
    minuet::check(minuet_device_copy(device_.get(), in_.get(), cloud.features.data(), rows * 16, 0));
    minuet::check(minuet_device_copy(device_.get(), count_.get(), &cloud.count, 4, 0));
  }
  void enqueue() {
    execution_.prepare_on_device(coordinates_.get(), count_.get(), stream_);
    execution_.run({minuet::tensor(in_.get(), capacity_, 4, MINUET_F32)},
                   minuet::tensor(out_.get(), capacity_, 8, MINUET_F32), stream_);
  }

  const minuet::Device& device_;
  const Driver& driver_;
  std::int32_t levels_;
  std::int64_t capacity_;
  minuet::Execution execution_;
  minuet::Buffer<std::int32_t> coordinates_, count_;
  minuet::Buffer<float> in_, out_;
  void *stream_ = nullptr, *replay_ = nullptr;
};

// Whether both have the same rows, up to rounding, and the rows behind them are zeros.
bool agree(const std::vector<float>& found, const std::vector<float>& wanted) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float value = i < wanted.size() ? wanted[i] : 0.0f;
    if (!(std::abs(found[i] - value) <= 1e-4f * (1 + std::abs(value)))) return false;
  }
  return found.size() >= wanted.size();
}

}  // namespace

int main(int argument_count, char** arguments) try {
  if (argument_count != 2) throw std::runtime_error("usage: graph DEVICE");
  const minuet::Context context;
  const minuet::Device device(context, arguments[1]);
  const Driver driver(device.info().arch != std::string("cpu"));
  const std::int32_t widths[9] = {8, 8, 8, 8, 8, 8, 8, 8, 8};
  minuet_network_options network = MINUET_NETWORK_OPTIONS_INIT;
  network.name = "minkunet42";
  network.dtype = MINUET_F32;
  network.channels = widths;
  network.channel_count = 9;
  network.dataflow = MINUET_DATAFLOW_FUSED;  // capacity mode needs it for every layer
  const minuet::Plan plan = minuet::Plan::network(context, network);
  plan.load(device);

  const minuet::Execution exact(plan, device);
  const std::int32_t levels = plan.info().levels;
  run_exactly(device, exact, make_cloud(400));
  const std::vector<std::int64_t> capacities = exact.suggest_capacities(1.25, levels);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.level_capacity = capacities.data();
  options.level_count = levels;

  const Cloud clouds[] = {make_cloud(400), make_cloud(150),
                          make_cloud(static_cast<std::int32_t>(capacities[0]) + 1)};
  const std::vector<float> wanted[] = {
      run_exactly(device, exact, clouds[0]), run_exactly(device, exact, clouds[1]), {}};
  std::string failures[2];
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      try {
        Worker worker(device, plan, options, driver);
        for (int i = 0; i < 6; ++i) {
          const int cloud = (i + thread) % 3;
          std::vector<float> result;
          const std::uint32_t status = worker.infer(clouds[cloud], result);
          if ((status == 0) != (cloud < 2)) throw std::runtime_error("status " + std::to_string(status));
          if (!agree(result, wanted[cloud]))
            throw std::runtime_error("capacity mode disagrees with exact mode");
        }
      } catch (const std::exception& error) {
        failures[thread] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) {
    if (!failure.empty()) throw std::runtime_error(failure);
  }
  std::printf("%s: two threads ran clouds of 400 and 150 voxels, and %lld did not fit\n", device.info().name,
              static_cast<long long>(capacities[0] + 1));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
