// A context of libminuet with a narrow network on some GPUs, all of it a test's own, and streams to run it
// on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/driver.h"
#include "tests/runtime/execution/execution_fixture.h"

namespace minuet::abi {

/// How many GPUs the driver shows, and why there is none.
int gpu_count(std::string& reason);

/// A stream of a GPU's primary context, and of no thread's choosing: another context may be current.
class Stream {
 public:
  explicit Stream(int gpu);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return stream_; }

 private:
  const Driver& driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};

class Stack {
 public:
  /// Opens `gpus` GPUs, compiles once and loads on each. `cache`: a folder, or empty for the usual one.
  explicit Stack(int gpus, const std::string& cache = "");

  minuet_context* context() const { return context_.get(); }
  minuet_device* device(int gpu) const { return devices_[gpu].get(); }
  minuet_plan* network() const { return network_.get(); }
  Execution execution(int gpu) const;
  minuet_kernel_counters counters() const;
  /// Warnings that the library gave so far.
  std::vector<std::string> warnings() const { return *warnings_; }

 private:
  std::unique_ptr<std::vector<std::string>> warnings_ = std::make_unique<std::vector<std::string>>();
  Handle<minuet_context> context_{nullptr, {minuet_context_destroy}};
  std::vector<Handle<minuet_device>> devices_;
  Plan network_{nullptr, {minuet_plan_destroy}};
};

/// Device memory of one GPU.
class Memory {
 public:
  Memory(minuet_device* device, int64_t bytes) : device_(device), bytes_(bytes) {
    check(minuet_device_allocate(device, bytes, &data_));
  }
  template <class T>
  Memory(minuet_device* device, const std::vector<T>& values)
      : Memory(device, static_cast<int64_t>(values.size() * sizeof(T))) {
    check(minuet_device_copy(device, data_, values.data(), bytes_, 0));
  }
  ~Memory() { minuet_device_free(device_, data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }
  template <class T>
  std::vector<T> read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    check(minuet_device_copy(device_, values.data(), data_, bytes_, 1));
    return values;
  }

 private:
  minuet_device* device_;
  void* data_ = nullptr;
  int64_t bytes_;
};

/// The cloud that these tests run: the same for the same seed.
Cloud stack_cloud(uint64_t seed = kSeed);
/// The output of one cloud, through prepare and run on `stream`; what went wrong is in `status`.
std::vector<char> run_on(minuet_device* device, minuet_execution* execution, const Cloud& cloud, void* stream,
                         minuet_status* status = nullptr);

}  // namespace minuet::abi
