// Reorders rows of features from the caller's order into the order of a coordinate set, and back.
#pragma once

#include <vector>

#include "runtime/cuda/launcher.h"

namespace minuet {

class PermuteStep {
 public:
  explicit PermuteStep(Launcher& launcher) : launcher_(launcher) {}
  llvm::Expected<i32> add(const PermuteRowsSpec& spec);
  llvm::Error run(const PermuteRequest& request);

 private:
  struct Entry {
    PermuteRowsSpec spec;
    Kernel<PermuteRowsParams> kernel;
  };

  Launcher& launcher_;
  std::vector<Entry> entries_;
};

}  // namespace minuet
