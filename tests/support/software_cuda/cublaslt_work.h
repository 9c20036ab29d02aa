// A matmul as it runs on the stream: everything is copied at the call, and device memory touched only when it
// runs.
#pragma once

#include "tests/support/software_cuda/cublaslt_problem.h"
#include "tests/support/software_cuda/enqueue.h"

namespace minuet::software {

/// What the software driver exports to its neighbours.
struct Driver {
  decltype(&software_cuda_enqueue) enqueue = nullptr;
  decltype(&software_cuda_holds) holds = nullptr;
  decltype(&software_cuda_fault) fault = nullptr;

  /// Null where no software driver is loaded; asked again, it looks again. Where its library has no such
  /// functions, those of the program are taken: a test's.
  static const Driver* find();
};

struct MatmulWork {
  const Driver* driver = nullptr;
  MatmulCall call = {};
  Algorithm algorithm = {};
  const void* addresses[kOperands] = {};  // in pointers mode of tables
  float alpha = 0, beta = 0;
  char* workspace = nullptr;
  uint64_t workspace_bytes = 0;
};

/// In two pieces: the first fills the workspace, the second wants it untouched. Between them the scheduler
/// may run what another stream has, so a workspace that two streams share does not stay as it was.
CUresult enqueue(const MatmulWork& work, CUstream stream);

}  // namespace minuet::software
