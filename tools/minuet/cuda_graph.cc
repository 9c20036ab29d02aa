#include "tools/minuet/cuda_graph.h"

#include <cuda.h>
#include <dlfcn.h>

#include "tools/minuet/error.h"

namespace minuet::tool {

// As cuda.h spells them: some names are macros for a version.
#define MINUET_GRAPH_FUNCTIONS(row)                                                                      \
  row(cuGetErrorName) row(cuDeviceGet) row(cuDevicePrimaryCtxRetain) row(cuDevicePrimaryCtxRelease)      \
      row(cuCtxPushCurrent) row(cuCtxPopCurrent) row(cuStreamCreate) row(cuStreamDestroy)                \
          row(cuStreamSynchronize) row(cuStreamBeginCapture) row(cuStreamEndCapture) row(cuGraphDestroy) \
              row(cuGraphInstantiateWithFlags) row(cuGraphExecDestroy) row(cuGraphLaunch)
#define MINUET_TEXT(name) #name
#define MINUET_EXPANDED_TEXT(name) MINUET_TEXT(name)

struct CudaGraph::State {
  struct {
#define MINUET_ROW(name) decltype(&::name) name = nullptr;
    MINUET_GRAPH_FUNCTIONS(MINUET_ROW)
#undef MINUET_ROW
  } driver;
  CUdevice device = 0;
  CUcontext context = nullptr;
  bool is_current = false;  // the context, for this thread
  CUstream stream = nullptr;
  CUgraphExec graph = nullptr;

  llvm::Error check(CUresult result, const char* attempt) const {
    if (result == CUDA_SUCCESS) return llvm::Error::success();
    const char* name = nullptr;
    driver.cuGetErrorName(result, &name);
    return broken(std::string(attempt) + ": " + (name ? name : "an error without a name"));
  }
  /// The library has opened the driver already, for its device.
  llvm::Error open_driver() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return bad_input("the CUDA driver does not open: {0}", dlerror());
#define MINUET_ROW(name)                                                                         \
  driver.name = reinterpret_cast<decltype(&::name)>(dlsym(library, MINUET_EXPANDED_TEXT(name))); \
  if (!driver.name)                                                                              \
    return bad_input("the CUDA driver has no {0}: it is too old for graphs", MINUET_EXPANDED_TEXT(name));
    MINUET_GRAPH_FUNCTIONS(MINUET_ROW)
#undef MINUET_ROW
    return llvm::Error::success();
  }
  llvm::Error open(const DeviceFacts& facts) {
    MINUET_TRY(open_driver());
    int ordinal = 0;
    if (llvm::StringRef(facts.name).substr(5).getAsInteger(10, ordinal))
      return bad_input("'{0}' is no GPU to make graphs for", facts.name);
    MINUET_TRY(check(driver.cuDeviceGet(&device, ordinal), "the GPU is not there"));
    MINUET_TRY(check(driver.cuDevicePrimaryCtxRetain(&context, device), "no context on the GPU"));
    MINUET_TRY(check(driver.cuCtxPushCurrent(context), "the GPU's context cannot be current"));
    is_current = true;
    return check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "no stream on the GPU");
  }
  ~State() {
    if (!context) return;
    if (graph) static_cast<void>(driver.cuGraphExecDestroy(graph));
    if (stream) static_cast<void>(driver.cuStreamDestroy(stream));
    CUcontext current = nullptr;
    if (is_current) static_cast<void>(driver.cuCtxPopCurrent(&current));
    static_cast<void>(driver.cuDevicePrimaryCtxRelease(device));
  }
};

CudaGraph::CudaGraph(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaGraph::~CudaGraph() = default;

llvm::Expected<std::unique_ptr<CudaGraph>> CudaGraph::capture(
    const DeviceFacts& facts, llvm::function_ref<llvm::Error(void* stream)> enqueue) {
  auto state = std::make_unique<State>();
  MINUET_TRY(state->open(facts));
  const auto& driver = state->driver;
  MINUET_TRY(state->check(driver.cuStreamBeginCapture(state->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                          "no capture"));
  llvm::Error failure = enqueue(state->stream);
  CUgraph graph = nullptr;
  const CUresult ended = driver.cuStreamEndCapture(state->stream, &graph);
  if (failure) {
    if (graph) static_cast<void>(driver.cuGraphDestroy(graph));
    return llvm::Expected<std::unique_ptr<CudaGraph>>(std::move(failure));
  }
  MINUET_TRY(state->check(ended, "the inference was not captured"));
  const CUresult made = driver.cuGraphInstantiateWithFlags(&state->graph, graph, 0);
  static_cast<void>(driver.cuGraphDestroy(graph));
  MINUET_TRY(state->check(made, "the captured graph is not to be run"));
  return std::unique_ptr<CudaGraph>(new CudaGraph(std::move(state)));
}

llvm::Error CudaGraph::replay() {
  MINUET_TRY(state_->check(state_->driver.cuGraphLaunch(state_->graph, state_->stream),
                           "the graph is not launched"));
  return state_->check(state_->driver.cuStreamSynchronize(state_->stream), "the graph failed");
}

}  // namespace minuet::tool
