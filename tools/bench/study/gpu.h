// Makes the CUDA driver calls that the studies need in addition to the library's: calls that read GPU
// attributes, and calls that load and launch the baseline's kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "llvm/ADT/STLExtras.h"
#include "tools/minuet/library/cuda_context.h"

namespace minuet::tool {

/// Represents a loaded kernel whose only argument is one struct, passed by value.
struct GpuKernel {
  void* kernel = nullptr;  ///< This is a CUkernel.
  int threads = 256;       ///< Each block has this many threads.
};

/// Keeps one GPU's primary context current on the opening thread during the object's lifetime. All work goes
/// to the default stream.
class Gpu {
 public:
  static llvm::Expected<std::unique_ptr<Gpu>> open(const DeviceFacts& facts);
  ~Gpu();

  int64_t multiprocessors() const { return multiprocessors_; }
  int64_t l2_bytes() const { return l2_bytes_; }
  /// Loads a kernel, which stays loaded for the lifetime of this object.
  llvm::Expected<GpuKernel> load(const std::string& cubin, const std::string& symbol);
  llvm::Error launch(const GpuKernel& kernel, int64_t blocks, void* params) const;
  llvm::Error fill_words(void* memory, uint32_t value, int64_t words) const;
  /// Calls `enqueue`, waits for the work that it enqueued, and returns how long the work took by two of the
  /// GPU's events.
  llvm::Expected<double> milliseconds(llvm::function_ref<llvm::Error()> enqueue) const;

 private:
  explicit Gpu(std::unique_ptr<CudaContext> context) : context_(std::move(context)) {}
  llvm::Error read(CUdevice_attribute attribute, int64_t& value) const;

  const std::unique_ptr<CudaContext> context_;
  std::vector<CUlibrary> libraries_;
  CUevent start_ = nullptr, end_ = nullptr;
  int64_t multiprocessors_ = 0, l2_bytes_ = 0;
};

}  // namespace minuet::tool
