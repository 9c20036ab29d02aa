// Keeps the kernels that an operation has used, because finding a kernel by its name takes a string.
#pragma once

#include <vector>

#include "runtime/cuda/cuda_device.h"

namespace minuet {

template <class Spec>
class KernelsBySpec {
 public:
  using Params = typename KernelRow<Spec>::Params;

  /// Returns the kernel of `spec`, or FailedPrecondition if it is not loaded. The function is compiled for
  /// size, because there is one copy for each kernel, and almost every call returns at once.
  [[gnu::cold]] llvm::Expected<Kernel<Params>> find(CudaDevice& device, const Spec& spec) {
    for (const Found& known : found_) {
      if (known.spec == spec) return known.kernel;
    }
    MINUET_ASSIGN(const Kernel<Params> kernel, device.kernel(spec));
    found_.push_back({spec, kernel});
    return kernel;
  }

 private:
  struct Found {
    Spec spec;
    Kernel<Params> kernel;
  };
  std::vector<Found> found_;
};

}  // namespace minuet
