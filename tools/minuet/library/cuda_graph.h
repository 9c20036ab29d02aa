// Captures library calls as a CUDA graph.
#pragma once

#include <memory>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/library/cuda_context.h"

namespace minuet::tool {

/// Owns an instantiated graph and the stream on which it was captured. The class is not thread-safe.
class CudaGraph {
 public:
  /// Captures the work that `enqueue` puts on the stream (a CUstream) that it receives.
  static llvm::Expected<std::unique_ptr<CudaGraph>> capture(
      const DeviceFacts& facts, llvm::function_ref<llvm::Error(void* stream)> enqueue);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  /// Launches the graph once and waits for its end.
  llvm::Error replay();

 private:
  explicit CudaGraph(std::unique_ptr<CudaContext> context) : context_(std::move(context)) {}
  const std::unique_ptr<CudaContext> context_;
  CUstream stream_ = nullptr;
  CUgraphExec graph_ = nullptr;
};

}  // namespace minuet::tool
