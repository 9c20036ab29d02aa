// Entry points of the driver that the library does not use and its tests do: capture, other contexts.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <functional>

namespace minuet {

/// driver_function<decltype(&::cuGraphLaunch)>("cuGraphLaunch"); null where the driver has none.
template <class Function>
Function driver_function(const char* symbol) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<Function>(library ? dlsym(library, symbol) : nullptr);
}

/// What `enqueue` enqueues on `stream`, captured instead of run; launch() replays it.
class CapturedGraph {
 public:
  CapturedGraph(CUstream stream, const std::function<void()>& enqueue,
                CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
      : stream_(stream) {
    const auto begin =
        driver_function<CUresult (*)(CUstream, CUstreamCaptureMode)>("cuStreamBeginCapture_v2");
    const auto end = driver_function<CUresult (*)(CUstream, CUgraph*)>("cuStreamEndCapture");
    const auto instantiate = driver_function<CUresult (*)(CUgraphExec*, CUgraph, unsigned long long)>(
        "cuGraphInstantiateWithFlags");
    if (!begin || !end || !instantiate) {
      ADD_FAILURE() << "the driver has no stream capture";
      return;
    }
    EXPECT_EQ(begin(stream, mode), CUDA_SUCCESS);
    enqueue();
    EXPECT_EQ(end(stream, &graph_), CUDA_SUCCESS) << "something in the capture was no launch";
    if (graph_ != nullptr) {
      EXPECT_EQ(instantiate(&executable_, graph_, 0), CUDA_SUCCESS);
    }
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  ~CapturedGraph() {
    if (executable_) driver_function<CUresult (*)(CUgraphExec)>("cuGraphExecDestroy")(executable_);
    if (graph_) driver_function<CUresult (*)(CUgraph)>("cuGraphDestroy")(graph_);
  }
  bool whole() const { return executable_ != nullptr; }
  CUresult launch() const {
    return driver_function<CUresult (*)(CUgraphExec, CUstream)>("cuGraphLaunch")(executable_, stream_);
  }

 private:
  CUstream stream_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

}  // namespace minuet
