#include "tools/minuet/library/cuda_graph.h"

#include "tools/minuet/base/error.h"

namespace minuet::tool {

CudaGraph::~CudaGraph() {
  if (graph_) static_cast<void>(context_->driver().cuGraphExecDestroy(graph_));
  if (stream_) static_cast<void>(context_->driver().cuStreamDestroy(stream_));
}

llvm::Expected<std::unique_ptr<CudaGraph>> CudaGraph::capture(
    const DeviceFacts& facts, llvm::function_ref<llvm::Error(void* stream)> enqueue) {
  MINUET_ASSIGN(std::unique_ptr<CudaContext> opened, CudaContext::open(facts));
  std::unique_ptr<CudaGraph> made(new CudaGraph(std::move(opened)));
  const CudaContext& context = *made->context_;
  const CudaContext::Driver& driver = context.driver();
  MINUET_TRY(context.check(driver.cuStreamCreate(&made->stream_, CU_STREAM_NON_BLOCKING),
                           "cannot create a stream on the GPU"));
  MINUET_TRY(context.check(driver.cuStreamBeginCapture(made->stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                           "cannot begin to capture a CUDA graph"));
  llvm::Error failure = enqueue(made->stream_);
  CUgraph graph = nullptr;
  const CUresult ended = driver.cuStreamEndCapture(made->stream_, &graph);
  if (failure) {
    if (graph) static_cast<void>(driver.cuGraphDestroy(graph));
    return llvm::Expected<std::unique_ptr<CudaGraph>>(std::move(failure));
  }
  MINUET_TRY(context.check(ended, "cannot capture the inference in a CUDA graph"));
  const CUresult instantiated = driver.cuGraphInstantiateWithFlags(&made->graph_, graph, 0);
  static_cast<void>(driver.cuGraphDestroy(graph));
  MINUET_TRY(context.check(instantiated, "cannot instantiate the captured CUDA graph"));
  return made;
}

llvm::Error CudaGraph::replay() {
  const CudaContext::Driver& driver = context_->driver();
  MINUET_TRY(context_->check(driver.cuGraphLaunch(graph_, stream_), "cannot launch the CUDA graph"));
  return context_->check(driver.cuStreamSynchronize(stream_), "the CUDA graph failed");
}

}  // namespace minuet::tool
