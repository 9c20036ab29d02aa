// Calls of the library as a CUDA graph, on a GPU.
#pragma once

#include <memory>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/library/cuda_context.h"

namespace minuet::tool {

/// One graph and the stream that it was captured on. One thread at a time.
class CudaGraph {
 public:
  /// What `enqueue` does with the stream that it gets (a CUstream).
  static llvm::Expected<std::unique_ptr<CudaGraph>> capture(
      const DeviceFacts& facts, llvm::function_ref<llvm::Error(void* stream)> enqueue);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  /// Once, to its end.
  llvm::Error replay();

 private:
  explicit CudaGraph(std::unique_ptr<CudaContext> context) : context_(std::move(context)) {}
  const std::unique_ptr<CudaContext> context_;
  CUstream stream_ = nullptr;
  CUgraphExec graph_ = nullptr;
};

}  // namespace minuet::tool
