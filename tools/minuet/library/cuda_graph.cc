#include "tools/minuet/library/cuda_graph.h"

#include "tools/minuet/base/error.h"
#include "tools/minuet/library/cuda_context.h"

namespace minuet::tool {

struct CudaGraph::State {
  explicit State(std::unique_ptr<CudaContext> of) : context(std::move(of)) {}
  ~State() {
    const CudaContext::Driver& driver = context->driver();
    if (graph) static_cast<void>(driver.cuGraphExecDestroy(graph));
    if (stream) static_cast<void>(driver.cuStreamDestroy(stream));
  }
  const std::unique_ptr<CudaContext> context;
  CUstream stream = nullptr;
  CUgraphExec graph = nullptr;
};

CudaGraph::CudaGraph(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaGraph::~CudaGraph() = default;

llvm::Expected<std::unique_ptr<CudaGraph>> CudaGraph::capture(
    const DeviceFacts& facts, llvm::function_ref<llvm::Error(void* stream)> enqueue) {
  MINUET_ASSIGN(std::unique_ptr<CudaContext> opened, CudaContext::open(facts));
  auto state = std::make_unique<State>(std::move(opened));
  const CudaContext& context = *state->context;
  const CudaContext::Driver& driver = context.driver();
  MINUET_TRY(
      context.check(driver.cuStreamCreate(&state->stream, CU_STREAM_NON_BLOCKING), "no stream on the GPU"));
  MINUET_TRY(context.check(driver.cuStreamBeginCapture(state->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                           "no capture"));
  llvm::Error failure = enqueue(state->stream);
  CUgraph graph = nullptr;
  const CUresult ended = driver.cuStreamEndCapture(state->stream, &graph);
  if (failure) {
    if (graph) static_cast<void>(driver.cuGraphDestroy(graph));
    return llvm::Expected<std::unique_ptr<CudaGraph>>(std::move(failure));
  }
  MINUET_TRY(context.check(ended, "the inference was not captured"));
  const CUresult made = driver.cuGraphInstantiateWithFlags(&state->graph, graph, 0);
  static_cast<void>(driver.cuGraphDestroy(graph));
  MINUET_TRY(context.check(made, "the captured graph is not to be run"));
  return std::unique_ptr<CudaGraph>(new CudaGraph(std::move(state)));
}

llvm::Error CudaGraph::replay() {
  const CudaContext& context = *state_->context;
  MINUET_TRY(context.check(context.driver().cuGraphLaunch(state_->graph, state_->stream),
                           "the graph is not launched"));
  return context.check(context.driver().cuStreamSynchronize(state_->stream), "the graph failed");
}

}  // namespace minuet::tool
