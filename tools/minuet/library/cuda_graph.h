// Calls of the library as a CUDA graph, on a GPU.
#pragma once

#include <memory>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/library/library.h"

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
  struct State;
  explicit CudaGraph(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace minuet::tool
