// What benchmarks share: the GPU, times by its clock, their summary, the results, and the exit status.
#pragma once

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "tests/runtime/abi/abi_stream.h"

namespace minuet::abi {

/// Owns an event of the current context.
class Event {
 public:
  Event() { driver_function<CUresult (*)(CUevent*, unsigned)>("cuEventCreate")(&event_, CU_EVENT_DEFAULT); }
  ~Event() { driver_function<CUresult (*)(CUevent)>("cuEventDestroy_v2")(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(CUstream stream) const {
    driver_function<CUresult (*)(CUevent, CUstream)>("cuEventRecord")(event_, stream);
  }
  /// What is enqueued on the stream from now on waits for the event.
  void hold(CUstream stream) const {
    driver_function<CUresult (*)(CUstream, CUevent, unsigned)>("cuStreamWaitEvent")(stream, event_, 0);
  }
  /// Both have happened.
  double milliseconds_since(const Event& before) const {
    float passed = 0;
    const auto elapsed = driver_function<CUresult (*)(float*, CUevent, CUevent)>("cuEventElapsedTime");
    if (elapsed(&passed, before.event_, event_) != CUDA_SUCCESS)
      throw std::runtime_error("the events tell no time");
    return passed;
  }

 private:
  CUevent event_ = nullptr;
};

/// Returns the first GPU. Throws, with the reason, if there is none.
inline Machine& open_gpu() {
  std::string reason;
  Machine* const machine = Machine::open("cuda:0", reason);
  if (machine == nullptr) throw std::runtime_error(reason);
  return *machine;
}

/// Runs a benchmark, and returns the exit status of its program. What is wrong is printed.
template <class Bench>
int exit_status_of(const Bench& bench) {
  try {
    bench();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

inline llvm::json::Object summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return llvm::json::Object{{"median_ms", times[times.size() / 2]},
                            {"p10_ms", times[times.size() / 10]},
                            {"p90_ms", times[times.size() * 9 / 10]},
                            {"max_ms", times.back()},
                            {"repeats", static_cast<int64_t>(times.size())}};
}

/// How long one launch of the graph takes on the GPU, in milliseconds.
inline double time_by_events(Machine& machine, const Stream& stream, const CapturedGraph& graph) {
  const Event begin, end;
  begin.record(stream.get());
  if (graph.launch() != CUDA_SUCCESS) throw std::runtime_error("the graph was not launched");
  end.record(stream.get());
  check(minuet_device_synchronize(machine.device(), stream.get()));
  return end.milliseconds_since(begin);
}

/// Prints the results as JSON, with what they were measured on.
inline void print_results(Machine& machine, const std::string& commit, llvm::json::Object results) {
  minuet_device_info device{};
  device.struct_size = sizeof(device);
  check(minuet_device_query(machine.device(), &device));
  minuet_system_info system{};
  system.struct_size = sizeof(system);
  check(minuet_query_system(&system));
  results["device"] = std::string(device.description);
  results["driver"] = std::string(system.driver);
  results["toolkit"] = std::string(system.nvrtc);
  results["commit"] = commit;
  llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(results))) << "\n";
}

}  // namespace minuet::abi
