// Keeps the kernels of the operations that are not ops of a program, and empties memory for them.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels_templates/shared/point_kernels.h"
#include "runtime/cuda/launcher.h"

namespace minuet {

/// Finds the loaded kernels of one type of Spec. It keeps them, because finding one by its name takes a
/// string.
template <class Spec>
class FoundKernels {
 public:
  using Found = Kernel<typename KernelRow<Spec>::Params>;

  // It is compiled for size, because there is one copy for each kernel, and almost every call returns at
  // once.
  [[gnu::cold]] llvm::Expected<Found> find(Launcher& launcher, const Spec& spec) {
    for (const Known& known : known_) {
      if (known.spec == spec) return known.kernel;
    }
    MINUET_ASSIGN(const Found kernel, launcher.device().kernel(spec));
    known_.push_back({spec, kernel});
    return kernel;
  }

 private:
  struct Known {
    Spec spec;
    Found kernel;
  };
  std::vector<Known> known_;
};

/// Enqueues one launch that fills all of the arrays, of which there are at most kMostClearedArrays.
inline llvm::Error clear_words(Launcher& launcher, FoundKernels<ClearWordsSpec>& kernels,
                               const ClearWordsSpec& spec, llvm::ArrayRef<ClearedArray> arrays) {
  MINUET_ASSIGN(const Kernel<ClearWordsParams> kernel, kernels.find(launcher, spec));
  ClearWordsParams params = {};
  i64 most = 0;
  for (const ClearedArray& array : arrays) {
    params.arrays[params.count++] = array;
    most = std::max(most, array.count);
  }
  return launcher.launch_stride(kernel, most, params);
}

}  // namespace minuet
